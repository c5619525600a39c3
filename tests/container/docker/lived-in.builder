access time	set
capabilities CapAmb	0000000000000000
capabilities CapBnd	0000003fffffffff
capabilities CapEff	0000000000000000
capabilities CapInh	0000000000000000
capabilities CapPrm	0000000000000000
cgroup make	yes
cgroup own	0::/|
env HOME	/home/builder
env HOSTNAME	(host name)
env PATH	/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
file /	directory 755 0 0
file /.dockerenv	regular empty file 755 0 0
file /.probe	directory 755 0 0
file /bin	directory 755 0 0
file /builds	directory 2775 1000 1000
file /dev	directory 755 0 0
file /etc	directory 755 0 0
file /etc/environment	regular file 644 0 0
file /etc/group	regular file 644 0 0
file /etc/hostname	regular file 644 0 0
file /etc/hosts	regular file 644 0 0
file /etc/mtab	symbolic link 777 0 0
file /etc/passwd	regular file 644 0 0
file /etc/profile	regular file 644 0 0
file /etc/profile.d	directory 755 0 0
file /etc/resolv.conf	regular file 644 0 0
file /home	directory 755 0 0
file /proc	directory 555 0 0
file /root	directory 755 0 0
file /run	directory 755 0 0
file /run/lock	directory 1777 0 0
file /run/mysqld	directory 775 1000 1000
file /run/seed	regular file 644 0 0
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
login PATH	/of/profile:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
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
program arguments	/.probe/busybox sh /.probe/probe 
program folder	/run/mysqld
resolv.conf	nameserver …|
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
