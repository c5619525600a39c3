access time	set
capabilities CapAmb	0000000000000000
capabilities CapBnd	0000003fffffffff
capabilities CapEff	0000000000000000
capabilities CapInh	0000000000000000
capabilities CapPrm	0000000000000000
cgroup make	yes
cgroup own	0::/|
cgroup-file cgroup.controllers	regular empty file 444 0 0
cgroup-file cgroup.events	regular empty file 444 0 0
cgroup-file cgroup.freeze	regular empty file 644 0 0
cgroup-file cgroup.kill	regular empty file 200 0 0
cgroup-file cgroup.max.depth	regular empty file 644 0 0
cgroup-file cgroup.max.descendants	regular empty file 644 0 0
cgroup-file cgroup.pressure	regular empty file 644 0 0
cgroup-file cgroup.procs	regular empty file 644 1000 0
cgroup-file cgroup.stat	regular empty file 444 0 0
cgroup-file cgroup.subtree_control	regular empty file 644 1000 0
cgroup-file cgroup.threads	regular empty file 644 1000 0
cgroup-file cgroup.type	regular empty file 644 0 0
cgroup-file cpu.idle	regular empty file 644 0 0
cgroup-file cpu.max	regular empty file 644 0 0
cgroup-file cpu.max.burst	regular empty file 644 0 0
cgroup-file cpu.pressure	regular empty file 644 0 0
cgroup-file cpu.stat	regular empty file 444 0 0
cgroup-file cpu.weight	regular empty file 644 0 0
cgroup-file cpu.weight.nice	regular empty file 644 0 0
cgroup-file cpuset.cpus	regular empty file 644 0 0
cgroup-file cpuset.cpus.effective	regular empty file 444 0 0
cgroup-file cpuset.cpus.partition	regular empty file 644 0 0
cgroup-file cpuset.mems	regular empty file 644 0 0
cgroup-file cpuset.mems.effective	regular empty file 444 0 0
cgroup-file hugetlb.1GB.current	regular empty file 444 0 0
cgroup-file hugetlb.1GB.events	regular empty file 444 0 0
cgroup-file hugetlb.1GB.events.local	regular empty file 444 0 0
cgroup-file hugetlb.1GB.max	regular empty file 644 0 0
cgroup-file hugetlb.1GB.numa_stat	regular empty file 444 0 0
cgroup-file hugetlb.1GB.rsvd.current	regular empty file 444 0 0
cgroup-file hugetlb.1GB.rsvd.max	regular empty file 644 0 0
cgroup-file hugetlb.2MB.current	regular empty file 444 0 0
cgroup-file hugetlb.2MB.events	regular empty file 444 0 0
cgroup-file hugetlb.2MB.events.local	regular empty file 444 0 0
cgroup-file hugetlb.2MB.max	regular empty file 644 0 0
cgroup-file hugetlb.2MB.numa_stat	regular empty file 444 0 0
cgroup-file hugetlb.2MB.rsvd.current	regular empty file 444 0 0
cgroup-file hugetlb.2MB.rsvd.max	regular empty file 644 0 0
cgroup-file io.max	regular empty file 644 0 0
cgroup-file io.pressure	regular empty file 644 0 0
cgroup-file io.stat	regular empty file 444 0 0
cgroup-file io.weight	regular empty file 644 0 0
cgroup-file memory.current	regular empty file 444 0 0
cgroup-file memory.events	regular empty file 444 0 0
cgroup-file memory.events.local	regular empty file 444 0 0
cgroup-file memory.high	regular empty file 644 0 0
cgroup-file memory.low	regular empty file 644 0 0
cgroup-file memory.max	regular empty file 644 0 0
cgroup-file memory.min	regular empty file 644 0 0
cgroup-file memory.numa_stat	regular empty file 444 0 0
cgroup-file memory.oom.group	regular empty file 644 1000 0
cgroup-file memory.peak	regular empty file 444 0 0
cgroup-file memory.pressure	regular empty file 644 0 0
cgroup-file memory.reclaim	regular empty file 200 1000 0
cgroup-file memory.stat	regular empty file 444 0 0
cgroup-file memory.swap.current	regular empty file 444 0 0
cgroup-file memory.swap.events	regular empty file 444 0 0
cgroup-file memory.swap.high	regular empty file 644 0 0
cgroup-file memory.swap.max	regular empty file 644 0 0
cgroup-file misc.current	regular empty file 444 0 0
cgroup-file misc.events	regular empty file 444 0 0
cgroup-file misc.max	regular empty file 644 0 0
cgroup-file pids.current	regular empty file 444 0 0
cgroup-file pids.events	regular empty file 444 0 0
cgroup-file pids.max	regular empty file 644 0 0
cgroup-file pids.peak	regular empty file 444 0 0
cgroup-file rdma.current	regular empty file 444 0 0
cgroup-file rdma.max	regular empty file 644 0 0
cgroup-value cgroup.controllers	cpuset cpu io memory hugetlb pids rdma misc|
cgroup-value cgroup.subtree_control	
cgroup-value cgroup.type	domain|
cgroup-value cpu.max	max 100000|
cgroup-value cpu.weight	100|
cgroup-value memory.high	max|
cgroup-value memory.max	max|
cgroup-value memory.swap.max	max|
cgroup-value pids.max	3568|
device /dev	directory 755 0 0 0:0
device /dev/core	symbolic link 777 0 0 0:0
device /dev/cpu_dma_latency	character special file 600 0 0 a:7d
device /dev/fd	symbolic link 777 0 0 0:0
device /dev/full	character special file 666 0 0 1:7
device /dev/hpet	character special file 600 0 0 a:e4
device /dev/hwrng	character special file 600 0 0 a:b7
device /dev/kmsg	character special file 644 0 0 1:b
device /dev/mem	character special file 600 0 0 1:1
device /dev/mqueue	directory 1777 0 0 0:0
device /dev/null	character special file 666 0 0 1:3
device /dev/ptmx	symbolic link 777 0 0 0:0
device /dev/pts	directory 755 0 0 0:0
device /dev/pts/ptmx	character special file 666 0 0 5:2
device /dev/random	character special file 666 0 0 1:8
device /dev/rtc0	character special file 600 0 0 fc:0
device /dev/shm	directory 1777 0 0 0:0
device /dev/snapshot	character special file 600 0 0 a:e7
device /dev/stderr	symbolic link 777 0 0 0:0
device /dev/stdin	symbolic link 777 0 0 0:0
device /dev/stdout	symbolic link 777 0 0 0:0
device /dev/tty	character special file 666 0 0 5:0
device /dev/tty0	character special file 600 0 0 4:0
device /dev/tty1	character special file 600 0 0 4:1
device /dev/tty10	character special file 600 0 0 4:a
device /dev/tty11	character special file 600 0 0 4:b
device /dev/tty12	character special file 600 0 0 4:c
device /dev/tty13	character special file 600 0 0 4:d
device /dev/tty14	character special file 600 0 0 4:e
device /dev/tty15	character special file 600 0 0 4:f
device /dev/tty16	character special file 600 0 0 4:10
device /dev/tty17	character special file 600 0 0 4:11
device /dev/tty18	character special file 600 0 0 4:12
device /dev/tty19	character special file 600 0 0 4:13
device /dev/tty2	character special file 600 0 0 4:2
device /dev/tty20	character special file 600 0 0 4:14
device /dev/tty21	character special file 600 0 0 4:15
device /dev/tty22	character special file 600 0 0 4:16
device /dev/tty23	character special file 600 0 0 4:17
device /dev/tty24	character special file 600 0 0 4:18
device /dev/tty25	character special file 600 0 0 4:19
device /dev/tty26	character special file 600 0 0 4:1a
device /dev/tty27	character special file 600 0 0 4:1b
device /dev/tty28	character special file 600 0 0 4:1c
device /dev/tty29	character special file 600 0 0 4:1d
device /dev/tty3	character special file 600 0 0 4:3
device /dev/tty30	character special file 600 0 0 4:1e
device /dev/tty31	character special file 600 0 0 4:1f
device /dev/tty32	character special file 600 0 0 4:20
device /dev/tty33	character special file 600 0 0 4:21
device /dev/tty34	character special file 600 0 0 4:22
device /dev/tty35	character special file 600 0 0 4:23
device /dev/tty36	character special file 600 0 0 4:24
device /dev/tty37	character special file 600 0 0 4:25
device /dev/tty38	character special file 600 0 0 4:26
device /dev/tty39	character special file 600 0 0 4:27
device /dev/tty4	character special file 600 0 0 4:4
device /dev/tty40	character special file 600 0 0 4:28
device /dev/tty41	character special file 600 0 0 4:29
device /dev/tty42	character special file 600 0 0 4:2a
device /dev/tty43	character special file 600 0 0 4:2b
device /dev/tty44	character special file 600 0 0 4:2c
device /dev/tty45	character special file 600 0 0 4:2d
device /dev/tty46	character special file 600 0 0 4:2e
device /dev/tty47	character special file 600 0 0 4:2f
device /dev/tty48	character special file 600 0 0 4:30
device /dev/tty49	character special file 600 0 0 4:31
device /dev/tty5	character special file 600 0 0 4:5
device /dev/tty50	character special file 600 0 0 4:32
device /dev/tty51	character special file 600 0 0 4:33
device /dev/tty52	character special file 600 0 0 4:34
device /dev/tty53	character special file 600 0 0 4:35
device /dev/tty54	character special file 600 0 0 4:36
device /dev/tty55	character special file 600 0 0 4:37
device /dev/tty56	character special file 600 0 0 4:38
device /dev/tty57	character special file 600 0 0 4:39
device /dev/tty58	character special file 600 0 0 4:3a
device /dev/tty59	character special file 600 0 0 4:3b
device /dev/tty6	character special file 600 0 0 4:6
device /dev/tty60	character special file 600 0 0 4:3c
device /dev/tty61	character special file 600 0 0 4:3d
device /dev/tty62	character special file 600 0 0 4:3e
device /dev/tty63	character special file 600 0 0 4:3f
device /dev/tty7	character special file 600 0 0 4:7
device /dev/tty8	character special file 600 0 0 4:8
device /dev/tty9	character special file 600 0 0 4:9
device /dev/ttyS0	character special file 600 0 0 4:40
device /dev/ttyS1	character special file 600 0 0 4:41
device /dev/ttyS2	character special file 600 0 0 4:42
device /dev/ttyS3	character special file 600 0 0 4:43
device /dev/urandom	character special file 666 0 0 1:9
device /dev/userfaultfd	character special file 600 0 0 a:7e
device /dev/vcs	character special file 600 0 0 7:0
device /dev/vcs1	character special file 600 0 0 7:1
device /dev/vcs2	character special file 600 0 0 7:2
device /dev/vcs3	character special file 600 0 0 7:3
device /dev/vcs4	character special file 600 0 0 7:4
device /dev/vcs5	character special file 600 0 0 7:5
device /dev/vcs6	character special file 600 0 0 7:6
device /dev/vcsa	character special file 600 0 0 7:80
device /dev/vcsa1	character special file 600 0 0 7:81
device /dev/vcsa2	character special file 600 0 0 7:82
device /dev/vcsa3	character special file 600 0 0 7:83
device /dev/vcsa4	character special file 600 0 0 7:84
device /dev/vcsa5	character special file 600 0 0 7:85
device /dev/vcsa6	character special file 600 0 0 7:86
device /dev/vcsu	character special file 600 0 0 7:40
device /dev/vcsu1	character special file 600 0 0 7:41
device /dev/vcsu2	character special file 600 0 0 7:42
device /dev/vcsu3	character special file 600 0 0 7:43
device /dev/vcsu4	character special file 600 0 0 7:44
device /dev/vcsu5	character special file 600 0 0 7:45
device /dev/vcsu6	character special file 600 0 0 7:46
device /dev/vda	block special file 600 0 0 fe:0
device /dev/vga_arbiter	character special file 600 0 0 a:7f
device /dev/vsock	character special file 600 0 0 a:7c
device /dev/zero	character special file 666 0 0 1:5
device-link /dev/core	/proc/kcore
device-link /dev/fd	/proc/self/fd
device-link /dev/ptmx	pts/ptmx
device-link /dev/stderr	/proc/self/fd/2
device-link /dev/stdin	/proc/self/fd/0
device-link /dev/stdout	/proc/self/fd/1
env HOME	/home/builder
env HOSTNAME	(host name)
env PATH	/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
file /	directory 755 0 0
file /.dockerenv	regular empty file 755 0 0
file /.probe	directory 755 0 0
file /bin	directory 755 0 0
file /dev	directory 755 0 0
file /etc	directory 755 0 0
file /etc/group	regular file 644 0 0
file /etc/hostname	regular file 644 0 0
file /etc/hosts	regular file 644 0 0
file /etc/mtab	symbolic link 777 0 0
file /etc/passwd	regular file 644 0 0
file /etc/resolv.conf	regular file 644 0 0
file /home	directory 755 0 0
file /proc	directory 555 0 0
file /root	directory 755 0 0
file /sys	directory 555 0 0
file /tmp	directory 1777 0 0
file /usr	directory 755 0 0
file /usr/bin	directory 755 0 0
file /var	directory 755 0 0
hostname /etc/hostname	same
hostname /etc/hosts	0
hostname /proc/sys	same
hostname domain	(none)
hostname uname	same
hostname variable	same
hosts	127.0.0.1 localhost|::1 localhost ip6-localhost ip6-loopback|fe00::0 ip6-localnet|ff00::0 ip6-mcastprefix|ff02::1 ip6-allnodes|ff02::2 ip6-allrouters|
identity gid_map	 0 0 4294967295|
identity setgroups	allow|
identity uid_map	 0 0 4294967295|
kernel /proc/acpi	directory 555 0:0 
kernel /proc/asound	none
kernel /proc/bus	directory 555 0:0 
kernel /proc/fs	directory 555 0:0 
kernel /proc/irq	directory 555 0:0 
kernel /proc/kcore	regular file 400 0:0 
kernel /proc/keys	regular empty file 444 0:0 
kernel /proc/sched_debug	none
kernel /proc/scsi	none
kernel /proc/sys	directory 555 0:0 
kernel /proc/sysrq-trigger	regular empty file 200 0:0 
kernel /proc/timer_list	regular empty file 400 0:0 
kernel /sys/devices/virtual/powercap	none
kernel /sys/firmware	directory 755 0:0 
limit Max address space	unlimited unlimited
limit Max core file size	unlimited unlimited
limit Max cpu time	unlimited unlimited
limit Max data size	unlimited unlimited
limit Max file locks	unlimited unlimited
limit Max file size	unlimited unlimited
limit Max locked memory	8388608 8388608
limit Max msgqueue size	819200 819200
limit Max nice priority	0 0
limit Max open files	1048576 1048576
limit Max pending signals	11893 11893
limit Max processes	unlimited unlimited
limit Max realtime priority	0 0
limit Max realtime timeout	unlimited unlimited
limit Max resident set	unlimited unlimited
limit Max stack size	8388608 unlimited
login HOME	/home/builder
login PATH	/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount /	overlay rw,relatime rw,
mount /dev	tmpfs rw,nosuid rw,size=65536k,mode=755,inode64
mount /dev/mqueue	mqueue rw,nosuid,nodev,noexec,relatime rw
mount /dev/pts	devpts rw,nosuid,noexec,relatime rw,gid=5,mode=620,ptmxmode=666
mount /dev/shm	tmpfs rw,nosuid,nodev,noexec,relatime rw,size=65536k,inode64
mount /etc/hostname	ext4 rw,relatime rw
mount /etc/hosts	ext4 rw,relatime rw
mount /etc/resolv.conf	ext4 rw,relatime rw
mount /proc	proc rw,nosuid,nodev,noexec,relatime rw
mount /sys	sysfs rw,nosuid,nodev,noexec,relatime rw
mount /sys/fs/cgroup	cgroup2 rw,nosuid,nodev,noexec,relatime rw,nsdelegate,memory_recursiveprot
namespace cgroup	as of process 1
namespace ipc	as of process 1
namespace mnt	as of process 1
namespace net	as of process 1
namespace pid	as of process 1
namespace user	as of process 1
namespace uts	as of process 1
process dumpable	1000
process oom_score_adj	0
process policy	0
process priority nice	20 0
process session leader	yes
process terminal	0
program arguments	/.probe/busybox sh /.probe/probe kernel 
program folder	/
resolv.conf	nameserver …|
setting fs/aio-max-nr	65536
setting fs/aio-nr	0
setting fs/dir-notify-enable	1
setting fs/epoll/max_user_watches	677776
setting fs/fanotify/max_queued_events	16384
setting fs/fanotify/max_user_groups	128
setting fs/fanotify/max_user_marks	24663
setting fs/file-max	9223372036854775807
setting fs/inotify/max_queued_events	16384
setting fs/inotify/max_user_instances	128
setting fs/inotify/max_user_watches	23195
setting fs/lease-break-time	45
setting fs/leases-enable	1
setting fs/mount-max	100000
setting fs/mqueue/msg_default	10
setting fs/mqueue/msg_max	10
setting fs/mqueue/msgsize_default	8192
setting fs/mqueue/msgsize_max	8192
setting fs/mqueue/queues_max	256
setting fs/nr_open	1048576
setting fs/overflowgid	65534
setting fs/overflowuid	65534
setting fs/pipe-max-size	1048576
setting fs/pipe-user-pages-hard	0
setting fs/pipe-user-pages-soft	16384
setting fs/protected_fifos	0
setting fs/protected_hardlinks	1
setting fs/protected_regular	0
setting fs/protected_symlinks	1
setting fs/quota/allocated_dquots	0
setting fs/quota/cache_hits	0
setting fs/quota/drops	0
setting fs/quota/free_dquots	0
setting fs/quota/lookups	0
setting fs/quota/reads	0
setting fs/quota/syncs	32
setting fs/quota/warnings	1
setting fs/quota/writes	0
setting fs/suid_dumpable	0
setting fs/verity/require_signatures	0
setting kernel/acct	4 2 30
setting kernel/acpi_video_flags	0
setting kernel/arch	x86_64
setting kernel/auto_msgmni	0
setting kernel/bootloader_type	176
setting kernel/bootloader_version	0
setting kernel/bpf_stats_enabled	0
setting kernel/cap_last_cap	40
setting kernel/core_pattern	core
setting kernel/core_pipe_limit	0
setting kernel/core_uses_pid	0
setting kernel/ctrl-alt-del	0
setting kernel/dmesg_restrict	1
setting kernel/domainname	(none)
setting kernel/ftrace_dump_on_oops	0
setting kernel/ftrace_enabled	1
setting kernel/hardlockup_all_cpu_backtrace	0
setting kernel/hardlockup_panic	0
setting kernel/hostname	3855681be91f
setting kernel/hung_task_all_cpu_backtrace	0
setting kernel/hung_task_check_count	4194304
setting kernel/hung_task_check_interval_secs	0
setting kernel/hung_task_panic	0
setting kernel/hung_task_timeout_secs	120
setting kernel/hung_task_warnings	10
setting kernel/io_delay_type	0
setting kernel/kexec_load_disabled	0
setting kernel/keys/gc_delay	300
setting kernel/keys/maxbytes	20000
setting kernel/keys/maxkeys	200
setting kernel/keys/persistent_keyring_expiry	259200
setting kernel/keys/root_maxbytes	25000000
setting kernel/keys/root_maxkeys	1000000
setting kernel/kptr_restrict	0
setting kernel/max_lock_depth	1024
setting kernel/max_rcu_stall_to_panic	0
setting kernel/modprobe	/sbin/modprobe
setting kernel/modules_disabled	0
setting kernel/msg_next_id	-1
setting kernel/msgmax	8192
setting kernel/msgmnb	16384
setting kernel/msgmni	32000
setting kernel/ngroups_max	65536
setting kernel/nmi_watchdog	0
setting kernel/numa_balancing	0
setting kernel/numa_balancing_promote_rate_limit_MBps	65536
setting kernel/oops_all_cpu_backtrace	0
setting kernel/oops_limit	10000
setting kernel/ostype	Linux
setting kernel/overflowgid	65534
setting kernel/overflowuid	65534
setting kernel/panic	-1
setting kernel/panic_on_io_nmi	0
setting kernel/panic_on_oops	0
setting kernel/panic_on_rcu_stall	0
setting kernel/panic_on_unrecovered_nmi	0
setting kernel/panic_on_warn	0
setting kernel/panic_print	0
setting kernel/perf_cpu_time_max_percent	25
setting kernel/perf_event_max_contexts_per_stack	8
setting kernel/perf_event_max_sample_rate	100000
setting kernel/perf_event_max_stack	127
setting kernel/perf_event_mlock_kb	516
setting kernel/perf_event_paranoid	3
setting kernel/pid_max	4194304
setting kernel/poweroff_cmd	/sbin/poweroff
setting kernel/print-fatal-signals	0
setting kernel/printk	4 4 1 7
setting kernel/printk_delay	0
setting kernel/printk_devkmsg	on
setting kernel/printk_ratelimit	5
setting kernel/printk_ratelimit_burst	10
setting kernel/pty/max	4096
setting kernel/pty/reserve	1024
setting kernel/randomize_va_space	2
setting kernel/real-root-dev	0
setting kernel/sched_autogroup_enabled	0
setting kernel/sched_cfs_bandwidth_slice_us	5000
setting kernel/sched_child_runs_first	0
setting kernel/sched_deadline_period_max_us	4194304
setting kernel/sched_deadline_period_min_us	100
setting kernel/sched_energy_aware	1
setting kernel/sched_rr_timeslice_ms	100
setting kernel/sched_rt_period_us	1000000
setting kernel/sched_rt_runtime_us	950000
setting kernel/sched_schedstats	0
setting kernel/seccomp/actions_avail	kill_process kill_thread trap errno user_notif trace log allow
setting kernel/seccomp/actions_logged	kill_process kill_thread trap errno user_notif trace log
setting kernel/sem	32000 1024000000 500 32000
setting kernel/sem_next_id	-1
setting kernel/shm_next_id	-1
setting kernel/shm_rmid_forced	0
setting kernel/shmall	18446744073692774399
setting kernel/shmmax	18446744073692774399
setting kernel/shmmni	4096
setting kernel/soft_watchdog	1
setting kernel/softlockup_all_cpu_backtrace	0
setting kernel/softlockup_panic	0
setting kernel/split_lock_mitigate	1
setting kernel/stack_tracer_enabled	0
setting kernel/sysctl_writes_strict	1
setting kernel/sysrq	438
setting kernel/tainted	0
setting kernel/task_delayacct	0
setting kernel/threads-max	23787
setting kernel/timer_migration	1
setting kernel/traceoff_on_warning	0
setting kernel/tracepoint_printk	0
setting kernel/unknown_nmi_panic	0
setting kernel/unprivileged_bpf_disabled	2
setting kernel/unprivileged_userns_clone	1
setting kernel/warn_limit	0
setting kernel/watchdog	1
setting kernel/watchdog_cpumask	0-1
setting kernel/watchdog_thresh	10
setting kernel/yama/ptrace_scope	0
setting net/core/somaxconn	4096
setting net/core/txrehash	1
setting net/core/xfrm_acq_expires	30
setting net/core/xfrm_aevent_etime	10
setting net/core/xfrm_aevent_rseqth	2
setting net/core/xfrm_larval_drop	1
setting net/ipv4/conf/all/accept_local	0
setting net/ipv4/conf/all/accept_redirects	0
setting net/ipv4/conf/all/accept_source_route	0
setting net/ipv4/conf/all/arp_accept	0
setting net/ipv4/conf/all/arp_announce	0
setting net/ipv4/conf/all/arp_evict_nocarrier	1
setting net/ipv4/conf/all/arp_filter	0
setting net/ipv4/conf/all/arp_ignore	0
setting net/ipv4/conf/all/arp_notify	0
setting net/ipv4/conf/all/bc_forwarding	0
setting net/ipv4/conf/all/bootp_relay	0
setting net/ipv4/conf/all/disable_policy	0
setting net/ipv4/conf/all/disable_xfrm	0
setting net/ipv4/conf/all/drop_gratuitous_arp	0
setting net/ipv4/conf/all/drop_unicast_in_l2_multicast	0
setting net/ipv4/conf/all/force_igmp_version	0
setting net/ipv4/conf/all/forwarding	1
setting net/ipv4/conf/all/igmpv2_unsolicited_report_interval	10000
setting net/ipv4/conf/all/igmpv3_unsolicited_report_interval	1000
setting net/ipv4/conf/all/ignore_routes_with_linkdown	0
setting net/ipv4/conf/all/log_martians	0
setting net/ipv4/conf/all/mc_forwarding	0
setting net/ipv4/conf/all/medium_id	0
setting net/ipv4/conf/all/promote_secondaries	0
setting net/ipv4/conf/all/proxy_arp	0
setting net/ipv4/conf/all/proxy_arp_pvlan	0
setting net/ipv4/conf/all/route_localnet	0
setting net/ipv4/conf/all/rp_filter	0
setting net/ipv4/conf/all/secure_redirects	1
setting net/ipv4/conf/all/send_redirects	1
setting net/ipv4/conf/all/shared_media	1
setting net/ipv4/conf/all/src_valid_mark	0
setting net/ipv4/conf/all/tag	0
setting net/ipv4/conf/default/accept_local	0
setting net/ipv4/conf/default/accept_redirects	1
setting net/ipv4/conf/default/accept_source_route	1
setting net/ipv4/conf/default/arp_accept	0
setting net/ipv4/conf/default/arp_announce	0
setting net/ipv4/conf/default/arp_evict_nocarrier	1
setting net/ipv4/conf/default/arp_filter	0
setting net/ipv4/conf/default/arp_ignore	0
setting net/ipv4/conf/default/arp_notify	0
setting net/ipv4/conf/default/bc_forwarding	0
setting net/ipv4/conf/default/bootp_relay	0
setting net/ipv4/conf/default/disable_policy	0
setting net/ipv4/conf/default/disable_xfrm	0
setting net/ipv4/conf/default/drop_gratuitous_arp	0
setting net/ipv4/conf/default/drop_unicast_in_l2_multicast	0
setting net/ipv4/conf/default/force_igmp_version	0
setting net/ipv4/conf/default/forwarding	1
setting net/ipv4/conf/default/igmpv2_unsolicited_report_interval	10000
setting net/ipv4/conf/default/igmpv3_unsolicited_report_interval	1000
setting net/ipv4/conf/default/ignore_routes_with_linkdown	0
setting net/ipv4/conf/default/log_martians	0
setting net/ipv4/conf/default/mc_forwarding	0
setting net/ipv4/conf/default/medium_id	0
setting net/ipv4/conf/default/promote_secondaries	0
setting net/ipv4/conf/default/proxy_arp	0
setting net/ipv4/conf/default/proxy_arp_pvlan	0
setting net/ipv4/conf/default/route_localnet	0
setting net/ipv4/conf/default/rp_filter	0
setting net/ipv4/conf/default/secure_redirects	1
setting net/ipv4/conf/default/send_redirects	1
setting net/ipv4/conf/default/shared_media	1
setting net/ipv4/conf/default/src_valid_mark	0
setting net/ipv4/conf/default/tag	0
setting net/ipv4/conf/lo/accept_local	0
setting net/ipv4/conf/lo/accept_redirects	1
setting net/ipv4/conf/lo/accept_source_route	1
setting net/ipv4/conf/lo/arp_accept	0
setting net/ipv4/conf/lo/arp_announce	0
setting net/ipv4/conf/lo/arp_evict_nocarrier	1
setting net/ipv4/conf/lo/arp_filter	0
setting net/ipv4/conf/lo/arp_ignore	0
setting net/ipv4/conf/lo/arp_notify	0
setting net/ipv4/conf/lo/bc_forwarding	0
setting net/ipv4/conf/lo/bootp_relay	0
setting net/ipv4/conf/lo/disable_policy	1
setting net/ipv4/conf/lo/disable_xfrm	1
setting net/ipv4/conf/lo/drop_gratuitous_arp	0
setting net/ipv4/conf/lo/drop_unicast_in_l2_multicast	0
setting net/ipv4/conf/lo/force_igmp_version	0
setting net/ipv4/conf/lo/forwarding	1
setting net/ipv4/conf/lo/igmpv2_unsolicited_report_interval	10000
setting net/ipv4/conf/lo/igmpv3_unsolicited_report_interval	1000
setting net/ipv4/conf/lo/ignore_routes_with_linkdown	0
setting net/ipv4/conf/lo/log_martians	0
setting net/ipv4/conf/lo/mc_forwarding	0
setting net/ipv4/conf/lo/medium_id	0
setting net/ipv4/conf/lo/promote_secondaries	0
setting net/ipv4/conf/lo/proxy_arp	0
setting net/ipv4/conf/lo/proxy_arp_pvlan	0
setting net/ipv4/conf/lo/route_localnet	0
setting net/ipv4/conf/lo/rp_filter	0
setting net/ipv4/conf/lo/secure_redirects	1
setting net/ipv4/conf/lo/send_redirects	1
setting net/ipv4/conf/lo/shared_media	1
setting net/ipv4/conf/lo/src_valid_mark	0
setting net/ipv4/conf/lo/tag	0
setting net/ipv4/fib_multipath_hash_fields	7
setting net/ipv4/fib_multipath_hash_policy	0
setting net/ipv4/fib_multipath_use_neigh	0
setting net/ipv4/fib_notify_on_flag_change	0
setting net/ipv4/fwmark_reflect	0
setting net/ipv4/icmp_echo_enable_probe	0
setting net/ipv4/icmp_echo_ignore_all	0
setting net/ipv4/icmp_echo_ignore_broadcasts	1
setting net/ipv4/icmp_errors_use_inbound_ifaddr	0
setting net/ipv4/icmp_ignore_bogus_error_responses	1
setting net/ipv4/icmp_msgs_burst	50
setting net/ipv4/icmp_msgs_per_sec	1000
setting net/ipv4/icmp_ratelimit	1000
setting net/ipv4/icmp_ratemask	6168
setting net/ipv4/igmp_link_local_mcast_reports	1
setting net/ipv4/igmp_max_memberships	20
setting net/ipv4/igmp_max_msf	10
setting net/ipv4/igmp_qrv	2
setting net/ipv4/ip_autobind_reuse	0
setting net/ipv4/ip_default_ttl	64
setting net/ipv4/ip_dynaddr	0
setting net/ipv4/ip_early_demux	1
setting net/ipv4/ip_forward	1
setting net/ipv4/ip_forward_update_priority	1
setting net/ipv4/ip_forward_use_pmtu	0
setting net/ipv4/ip_local_port_range	32768 60999
setting net/ipv4/ip_local_reserved_ports	
setting net/ipv4/ip_no_pmtu_disc	0
setting net/ipv4/ip_nonlocal_bind	0
setting net/ipv4/ip_unprivileged_port_start	0
setting net/ipv4/ipfrag_high_thresh	4194304
setting net/ipv4/ipfrag_low_thresh	3145728
setting net/ipv4/ipfrag_max_dist	64
setting net/ipv4/ipfrag_time	30
setting net/ipv4/neigh/lo/anycast_delay	100
setting net/ipv4/neigh/lo/app_solicit	0
setting net/ipv4/neigh/lo/base_reachable_time	30
setting net/ipv4/neigh/lo/base_reachable_time_ms	30000
setting net/ipv4/neigh/lo/delay_first_probe_time	5
setting net/ipv4/neigh/lo/gc_stale_time	60
setting net/ipv4/neigh/lo/interval_probe_time_ms	5000
setting net/ipv4/neigh/lo/locktime	100
setting net/ipv4/neigh/lo/mcast_resolicit	0
setting net/ipv4/neigh/lo/mcast_solicit	3
setting net/ipv4/neigh/lo/proxy_delay	80
setting net/ipv4/neigh/lo/proxy_qlen	64
setting net/ipv4/neigh/lo/retrans_time	100
setting net/ipv4/neigh/lo/retrans_time_ms	1000
setting net/ipv4/neigh/lo/ucast_solicit	3
setting net/ipv4/neigh/lo/unres_qlen	101
setting net/ipv4/neigh/lo/unres_qlen_bytes	212992
setting net/ipv4/nexthop_compat_mode	1
setting net/ipv4/ping_group_range	0 2147483647
setting net/ipv4/raw_l3mdev_accept	1
setting net/ipv4/route/min_adv_mss	256
setting net/ipv4/route/min_pmtu	552
setting net/ipv4/route/mtu_expires	600
setting net/ipv4/tcp_abort_on_overflow	0
setting net/ipv4/tcp_adv_win_scale	1
setting net/ipv4/tcp_allowed_congestion_control	reno cubic
setting net/ipv4/tcp_app_win	31
setting net/ipv4/tcp_autocorking	1
setting net/ipv4/tcp_available_congestion_control	reno cubic
setting net/ipv4/tcp_base_mss	1024
setting net/ipv4/tcp_challenge_ack_limit	2147483647
setting net/ipv4/tcp_child_ehash_entries	0
setting net/ipv4/tcp_comp_sack_delay_ns	1000000
setting net/ipv4/tcp_comp_sack_nr	44
setting net/ipv4/tcp_comp_sack_slack_ns	100000
setting net/ipv4/tcp_congestion_control	cubic
setting net/ipv4/tcp_dsack	1
setting net/ipv4/tcp_early_demux	1
setting net/ipv4/tcp_early_retrans	3
setting net/ipv4/tcp_ecn	2
setting net/ipv4/tcp_ecn_fallback	1
setting net/ipv4/tcp_ehash_entries	-32768
setting net/ipv4/tcp_fack	0
setting net/ipv4/tcp_fastopen	1
setting net/ipv4/tcp_fastopen_blackhole_timeout_sec	0
setting net/ipv4/tcp_fin_timeout	60
setting net/ipv4/tcp_frto	2
setting net/ipv4/tcp_fwmark_accept	0
setting net/ipv4/tcp_invalid_ratelimit	500
setting net/ipv4/tcp_keepalive_intvl	75
setting net/ipv4/tcp_keepalive_probes	9
setting net/ipv4/tcp_keepalive_time	7200
setting net/ipv4/tcp_l3mdev_accept	0
setting net/ipv4/tcp_limit_output_bytes	1048576
setting net/ipv4/tcp_max_reordering	300
setting net/ipv4/tcp_max_syn_backlog	256
setting net/ipv4/tcp_max_tw_buckets	16384
setting net/ipv4/tcp_migrate_req	0
setting net/ipv4/tcp_min_rtt_wlen	300
setting net/ipv4/tcp_min_snd_mss	48
setting net/ipv4/tcp_min_tso_segs	2
setting net/ipv4/tcp_moderate_rcvbuf	1
setting net/ipv4/tcp_mtu_probe_floor	48
setting net/ipv4/tcp_mtu_probing	0
setting net/ipv4/tcp_no_metrics_save	0
setting net/ipv4/tcp_no_ssthresh_metrics_save	1
setting net/ipv4/tcp_notsent_lowat	4294967295
setting net/ipv4/tcp_orphan_retries	0
setting net/ipv4/tcp_pacing_ca_ratio	120
setting net/ipv4/tcp_pacing_ss_ratio	200
setting net/ipv4/tcp_probe_interval	600
setting net/ipv4/tcp_probe_threshold	8
setting net/ipv4/tcp_recovery	1
setting net/ipv4/tcp_reflect_tos	0
setting net/ipv4/tcp_reordering	3
setting net/ipv4/tcp_retrans_collapse	1
setting net/ipv4/tcp_retries1	3
setting net/ipv4/tcp_retries2	15
setting net/ipv4/tcp_rfc1337	0
setting net/ipv4/tcp_rmem	4096 131072 6291456
setting net/ipv4/tcp_sack	1
setting net/ipv4/tcp_shrink_window	0
setting net/ipv4/tcp_slow_start_after_idle	1
setting net/ipv4/tcp_stdurg	0
setting net/ipv4/tcp_syn_retries	6
setting net/ipv4/tcp_synack_retries	5
setting net/ipv4/tcp_syncookies	1
setting net/ipv4/tcp_thin_linear_timeouts	0
setting net/ipv4/tcp_timestamps	1
setting net/ipv4/tcp_tso_rtt_log	9
setting net/ipv4/tcp_tso_win_divisor	3
setting net/ipv4/tcp_tw_reuse	2
setting net/ipv4/tcp_window_scaling	1
setting net/ipv4/tcp_wmem	4096 16384 4194304
setting net/ipv4/tcp_workaround_signed_windows	0
setting net/ipv4/udp_early_demux	1
setting net/ipv4/udp_l3mdev_accept	0
setting net/ipv4/udp_rmem_min	4096
setting net/ipv4/udp_wmem_min	4096
setting net/ipv4/xfrm4_gc_thresh	32768
setting net/ipv6/anycast_src_echo_reply	0
setting net/ipv6/auto_flowlabels	1
setting net/ipv6/bindv6only	0
setting net/ipv6/conf/all/accept_dad	0
setting net/ipv6/conf/all/accept_ra	1
setting net/ipv6/conf/all/accept_ra_defrtr	1
setting net/ipv6/conf/all/accept_ra_from_local	0
setting net/ipv6/conf/all/accept_ra_min_hop_limit	1
setting net/ipv6/conf/all/accept_ra_min_lft	0
setting net/ipv6/conf/all/accept_ra_mtu	1
setting net/ipv6/conf/all/accept_ra_pinfo	1
setting net/ipv6/conf/all/accept_ra_rt_info_max_plen	0
setting net/ipv6/conf/all/accept_ra_rt_info_min_plen	0
setting net/ipv6/conf/all/accept_ra_rtr_pref	1
setting net/ipv6/conf/all/accept_redirects	1
setting net/ipv6/conf/all/accept_source_route	0
setting net/ipv6/conf/all/accept_untracked_na	0
setting net/ipv6/conf/all/addr_gen_mode	0
setting net/ipv6/conf/all/autoconf	1
setting net/ipv6/conf/all/dad_transmits	1
setting net/ipv6/conf/all/disable_ipv6	1
setting net/ipv6/conf/all/disable_policy	0
setting net/ipv6/conf/all/drop_unicast_in_l2_multicast	0
setting net/ipv6/conf/all/drop_unsolicited_na	0
setting net/ipv6/conf/all/enhanced_dad	1
setting net/ipv6/conf/all/force_mld_version	0
setting net/ipv6/conf/all/force_tllao	0
setting net/ipv6/conf/all/forwarding	0
setting net/ipv6/conf/all/hop_limit	64
setting net/ipv6/conf/all/ignore_routes_with_linkdown	0
setting net/ipv6/conf/all/ioam6_enabled	0
setting net/ipv6/conf/all/ioam6_id	65535
setting net/ipv6/conf/all/ioam6_id_wide	4294967295
setting net/ipv6/conf/all/keep_addr_on_down	0
setting net/ipv6/conf/all/max_addresses	16
setting net/ipv6/conf/all/max_desync_factor	600
setting net/ipv6/conf/all/mc_forwarding	0
setting net/ipv6/conf/all/mldv1_unsolicited_report_interval	10000
setting net/ipv6/conf/all/mldv2_unsolicited_report_interval	1000
setting net/ipv6/conf/all/mtu	1280
setting net/ipv6/conf/all/ndisc_evict_nocarrier	1
setting net/ipv6/conf/all/ndisc_notify	0
setting net/ipv6/conf/all/ndisc_tclass	0
setting net/ipv6/conf/all/optimistic_dad	0
setting net/ipv6/conf/all/proxy_ndp	0
setting net/ipv6/conf/all/ra_defrtr_metric	1024
setting net/ipv6/conf/all/regen_max_retry	3
setting net/ipv6/conf/all/router_probe_interval	60
setting net/ipv6/conf/all/router_solicitation_delay	1
setting net/ipv6/conf/all/router_solicitation_interval	4
setting net/ipv6/conf/all/router_solicitation_max_interval	3600
setting net/ipv6/conf/all/router_solicitations	-1
setting net/ipv6/conf/all/rpl_seg_enabled	0
setting net/ipv6/conf/all/seg6_enabled	0
setting net/ipv6/conf/all/seg6_require_hmac	0
setting net/ipv6/conf/all/suppress_frag_ndisc	1
setting net/ipv6/conf/all/temp_prefered_lft	86400
setting net/ipv6/conf/all/temp_valid_lft	604800
setting net/ipv6/conf/all/use_oif_addrs_only	0
setting net/ipv6/conf/all/use_optimistic	0
setting net/ipv6/conf/all/use_tempaddr	0
setting net/ipv6/conf/default/accept_dad	1
setting net/ipv6/conf/default/accept_ra	1
setting net/ipv6/conf/default/accept_ra_defrtr	1
setting net/ipv6/conf/default/accept_ra_from_local	0
setting net/ipv6/conf/default/accept_ra_min_hop_limit	1
setting net/ipv6/conf/default/accept_ra_min_lft	0
setting net/ipv6/conf/default/accept_ra_mtu	1
setting net/ipv6/conf/default/accept_ra_pinfo	1
setting net/ipv6/conf/default/accept_ra_rt_info_max_plen	0
setting net/ipv6/conf/default/accept_ra_rt_info_min_plen	0
setting net/ipv6/conf/default/accept_ra_rtr_pref	1
setting net/ipv6/conf/default/accept_redirects	1
setting net/ipv6/conf/default/accept_source_route	0
setting net/ipv6/conf/default/accept_untracked_na	0
setting net/ipv6/conf/default/addr_gen_mode	0
setting net/ipv6/conf/default/autoconf	1
setting net/ipv6/conf/default/dad_transmits	1
setting net/ipv6/conf/default/disable_ipv6	1
setting net/ipv6/conf/default/disable_policy	0
setting net/ipv6/conf/default/drop_unicast_in_l2_multicast	0
setting net/ipv6/conf/default/drop_unsolicited_na	0
setting net/ipv6/conf/default/enhanced_dad	1
setting net/ipv6/conf/default/force_mld_version	0
setting net/ipv6/conf/default/force_tllao	0
setting net/ipv6/conf/default/forwarding	0
setting net/ipv6/conf/default/hop_limit	64
setting net/ipv6/conf/default/ignore_routes_with_linkdown	0
setting net/ipv6/conf/default/ioam6_enabled	0
setting net/ipv6/conf/default/ioam6_id	65535
setting net/ipv6/conf/default/ioam6_id_wide	4294967295
setting net/ipv6/conf/default/keep_addr_on_down	0
setting net/ipv6/conf/default/max_addresses	16
setting net/ipv6/conf/default/max_desync_factor	600
setting net/ipv6/conf/default/mc_forwarding	0
setting net/ipv6/conf/default/mldv1_unsolicited_report_interval	10000
setting net/ipv6/conf/default/mldv2_unsolicited_report_interval	1000
setting net/ipv6/conf/default/mtu	1280
setting net/ipv6/conf/default/ndisc_evict_nocarrier	1
setting net/ipv6/conf/default/ndisc_notify	0
setting net/ipv6/conf/default/ndisc_tclass	0
setting net/ipv6/conf/default/optimistic_dad	0
setting net/ipv6/conf/default/proxy_ndp	0
setting net/ipv6/conf/default/ra_defrtr_metric	1024
setting net/ipv6/conf/default/regen_max_retry	3
setting net/ipv6/conf/default/router_probe_interval	60
setting net/ipv6/conf/default/router_solicitation_delay	1
setting net/ipv6/conf/default/router_solicitation_interval	4
setting net/ipv6/conf/default/router_solicitation_max_interval	3600
setting net/ipv6/conf/default/router_solicitations	-1
setting net/ipv6/conf/default/rpl_seg_enabled	0
setting net/ipv6/conf/default/seg6_enabled	0
setting net/ipv6/conf/default/seg6_require_hmac	0
setting net/ipv6/conf/default/suppress_frag_ndisc	1
setting net/ipv6/conf/default/temp_prefered_lft	86400
setting net/ipv6/conf/default/temp_valid_lft	604800
setting net/ipv6/conf/default/use_oif_addrs_only	0
setting net/ipv6/conf/default/use_optimistic	0
setting net/ipv6/conf/default/use_tempaddr	0
setting net/ipv6/conf/lo/accept_dad	-1
setting net/ipv6/conf/lo/accept_ra	1
setting net/ipv6/conf/lo/accept_ra_defrtr	1
setting net/ipv6/conf/lo/accept_ra_from_local	0
setting net/ipv6/conf/lo/accept_ra_min_hop_limit	1
setting net/ipv6/conf/lo/accept_ra_min_lft	0
setting net/ipv6/conf/lo/accept_ra_mtu	1
setting net/ipv6/conf/lo/accept_ra_pinfo	1
setting net/ipv6/conf/lo/accept_ra_rt_info_max_plen	0
setting net/ipv6/conf/lo/accept_ra_rt_info_min_plen	0
setting net/ipv6/conf/lo/accept_ra_rtr_pref	1
setting net/ipv6/conf/lo/accept_redirects	1
setting net/ipv6/conf/lo/accept_source_route	0
setting net/ipv6/conf/lo/accept_untracked_na	0
setting net/ipv6/conf/lo/addr_gen_mode	0
setting net/ipv6/conf/lo/autoconf	1
setting net/ipv6/conf/lo/dad_transmits	1
setting net/ipv6/conf/lo/disable_ipv6	1
setting net/ipv6/conf/lo/disable_policy	0
setting net/ipv6/conf/lo/drop_unicast_in_l2_multicast	0
setting net/ipv6/conf/lo/drop_unsolicited_na	0
setting net/ipv6/conf/lo/enhanced_dad	1
setting net/ipv6/conf/lo/force_mld_version	0
setting net/ipv6/conf/lo/force_tllao	0
setting net/ipv6/conf/lo/forwarding	0
setting net/ipv6/conf/lo/hop_limit	64
setting net/ipv6/conf/lo/ignore_routes_with_linkdown	0
setting net/ipv6/conf/lo/ioam6_enabled	0
setting net/ipv6/conf/lo/ioam6_id	65535
setting net/ipv6/conf/lo/ioam6_id_wide	4294967295
setting net/ipv6/conf/lo/keep_addr_on_down	0
setting net/ipv6/conf/lo/max_addresses	16
setting net/ipv6/conf/lo/max_desync_factor	600
setting net/ipv6/conf/lo/mc_forwarding	0
setting net/ipv6/conf/lo/mldv1_unsolicited_report_interval	10000
setting net/ipv6/conf/lo/mldv2_unsolicited_report_interval	1000
setting net/ipv6/conf/lo/mtu	65536
setting net/ipv6/conf/lo/ndisc_evict_nocarrier	1
setting net/ipv6/conf/lo/ndisc_notify	0
setting net/ipv6/conf/lo/ndisc_tclass	0
setting net/ipv6/conf/lo/optimistic_dad	0
setting net/ipv6/conf/lo/proxy_ndp	0
setting net/ipv6/conf/lo/ra_defrtr_metric	1024
setting net/ipv6/conf/lo/regen_max_retry	3
setting net/ipv6/conf/lo/router_probe_interval	60
setting net/ipv6/conf/lo/router_solicitation_delay	1
setting net/ipv6/conf/lo/router_solicitation_interval	4
setting net/ipv6/conf/lo/router_solicitation_max_interval	3600
setting net/ipv6/conf/lo/router_solicitations	-1
setting net/ipv6/conf/lo/rpl_seg_enabled	0
setting net/ipv6/conf/lo/seg6_enabled	0
setting net/ipv6/conf/lo/seg6_require_hmac	0
setting net/ipv6/conf/lo/suppress_frag_ndisc	1
setting net/ipv6/conf/lo/temp_prefered_lft	86400
setting net/ipv6/conf/lo/temp_valid_lft	604800
setting net/ipv6/conf/lo/use_oif_addrs_only	0
setting net/ipv6/conf/lo/use_optimistic	0
setting net/ipv6/conf/lo/use_tempaddr	-1
setting net/ipv6/fib_multipath_hash_fields	7
setting net/ipv6/fib_multipath_hash_policy	0
setting net/ipv6/fib_notify_on_flag_change	0
setting net/ipv6/flowlabel_consistency	1
setting net/ipv6/flowlabel_reflect	0
setting net/ipv6/flowlabel_state_ranges	0
setting net/ipv6/fwmark_reflect	0
setting net/ipv6/icmp/echo_ignore_all	0
setting net/ipv6/icmp/echo_ignore_anycast	0
setting net/ipv6/icmp/echo_ignore_multicast	0
setting net/ipv6/icmp/ratelimit	1000
setting net/ipv6/icmp/ratemask	0-1,3-127
setting net/ipv6/idgen_delay	1
setting net/ipv6/idgen_retries	3
setting net/ipv6/ioam6_id	16777215
setting net/ipv6/ioam6_id_wide	72057594037927935
setting net/ipv6/ip6frag_high_thresh	4194304
setting net/ipv6/ip6frag_low_thresh	3145728
setting net/ipv6/ip6frag_time	60
setting net/ipv6/ip_nonlocal_bind	0
setting net/ipv6/max_dst_opts_length	2147483647
setting net/ipv6/max_dst_opts_number	8
setting net/ipv6/max_hbh_length	2147483647
setting net/ipv6/max_hbh_opts_number	8
setting net/ipv6/neigh/lo/anycast_delay	100
setting net/ipv6/neigh/lo/app_solicit	0
setting net/ipv6/neigh/lo/base_reachable_time	30
setting net/ipv6/neigh/lo/base_reachable_time_ms	30000
setting net/ipv6/neigh/lo/delay_first_probe_time	5
setting net/ipv6/neigh/lo/gc_stale_time	60
setting net/ipv6/neigh/lo/interval_probe_time_ms	5000
setting net/ipv6/neigh/lo/locktime	0
setting net/ipv6/neigh/lo/mcast_resolicit	0
setting net/ipv6/neigh/lo/mcast_solicit	3
setting net/ipv6/neigh/lo/proxy_delay	80
setting net/ipv6/neigh/lo/proxy_qlen	64
setting net/ipv6/neigh/lo/retrans_time	250
setting net/ipv6/neigh/lo/retrans_time_ms	1000
setting net/ipv6/neigh/lo/ucast_solicit	3
setting net/ipv6/neigh/lo/unres_qlen	101
setting net/ipv6/neigh/lo/unres_qlen_bytes	212992
setting net/ipv6/route/gc_elasticity	9
setting net/ipv6/route/gc_interval	30
setting net/ipv6/route/gc_min_interval	0
setting net/ipv6/route/gc_min_interval_ms	500
setting net/ipv6/route/gc_thresh	1024
setting net/ipv6/route/gc_timeout	60
setting net/ipv6/route/max_size	2147483647
setting net/ipv6/route/min_adv_mss	1220
setting net/ipv6/route/mtu_expires	600
setting net/ipv6/route/skip_notify_on_dev_down	0
setting net/ipv6/seg6_flowlabel	0
setting net/ipv6/xfrm6_gc_thresh	32768
setting net/mptcp/add_addr_timeout	120
setting net/mptcp/allow_join_initial_addr_port	1
setting net/mptcp/checksum_enabled	0
setting net/mptcp/enabled	1
setting net/mptcp/pm_type	0
setting net/mptcp/stale_loss_cnt	4
setting net/netfilter/nf_log/0	NONE
setting net/netfilter/nf_log/1	NONE
setting net/netfilter/nf_log/10	NONE
setting net/netfilter/nf_log/2	NONE
setting net/netfilter/nf_log/3	NONE
setting net/netfilter/nf_log/4	NONE
setting net/netfilter/nf_log/5	NONE
setting net/netfilter/nf_log/6	NONE
setting net/netfilter/nf_log/7	NONE
setting net/netfilter/nf_log/8	NONE
setting net/netfilter/nf_log/9	NONE
setting net/unix/max_dgram_qlen	10
setting vm/admin_reserve_kbytes	8192
setting vm/compact_unevictable_allowed	1
setting vm/compaction_proactiveness	20
setting vm/dirty_background_bytes	0
setting vm/dirty_background_ratio	10
setting vm/dirty_bytes	0
setting vm/dirty_expire_centisecs	3000
setting vm/dirty_ratio	20
setting vm/dirty_writeback_centisecs	500
setting vm/dirtytime_expire_seconds	43200
setting vm/extfrag_threshold	500
setting vm/hugetlb_optimize_vmemmap	0
setting vm/hugetlb_shm_group	0
setting vm/laptop_mode	0
setting vm/legacy_va_layout	0
setting vm/lowmem_reserve_ratio	256 256 32 0 0
setting vm/max_map_count	65530
setting vm/min_free_kbytes	45056
setting vm/min_slab_ratio	5
setting vm/min_unmapped_ratio	1
setting vm/mmap_min_addr	65536
setting vm/nr_hugepages	0
setting vm/nr_hugepages_mempolicy	0
setting vm/nr_overcommit_hugepages	0
setting vm/numa_stat	1
setting vm/numa_zonelist_order	Node
setting vm/oom_dump_tasks	1
setting vm/oom_kill_allocating_task	0
setting vm/overcommit_kbytes	0
setting vm/overcommit_memory	0
setting vm/overcommit_ratio	50
setting vm/page-cluster	3
setting vm/page_lock_unfairness	5
setting vm/panic_on_oom	0
setting vm/percpu_pagelist_high_fraction	0
setting vm/stat_interval	1
setting vm/swappiness	60
setting vm/unprivileged_userfaultfd	0
setting vm/user_reserve_kbytes	94864
setting vm/vfs_cache_pressure	100
setting vm/watermark_boost_factor	15000
setting vm/watermark_scale_factor	10
setting vm/zone_reclaim_mode	0
special /.dockerenv	regular empty file 755 0 0 
special /etc/hostname	regular file 644 0 0 
special /etc/hosts	regular file 644 0 0 
special /etc/mtab	symbolic link 777 0 0 /proc/mounts
special /etc/resolv.conf	regular file 644 0 0 
special /run/.containerenv	none
status Gid	1000 1000 1000 1000
status Groups	1000
status NoNewPrivs	0
status Seccomp	0
status SigBlk	0000000000000000
status SigIgn	0000000000000000
status Uid	1000 1000 1000 1000
status Umask	0022
stream open /dev/fd/1	yes
stream open /dev/stderr	yes
stream open /dev/stdout	yes
stream open /proc/1/fd/1	yes
stream open /proc/self/fd/2	yes
stream open stdin	yes
stream stderr	pipe fifo 600 1000 0
stream stdin	/dev/null character special file 666 0 0
stream stdout	pipe fifo 600 1000 0
terminal /dev/tty	no
writable /	no
writable /dev	no
writable /dev/shm	yes
writable /etc	no
writable /proc/sys/kernel	no
writable /root	no
writable /run	no
writable /sys	no
writable /sys/fs/cgroup	yes
writable /tmp	yes
writable /var	no
