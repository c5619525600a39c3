# shellcheck shell=bash disable=SC2154 # here, cache, work and refresh are set by build
# The initramfs: /init, which is the agent, and /modules. Not compressed: a guest under emulation unpacks
# slower than the host reads a few megabytes. Makes the cached part "initramfs": initramfs.cpio, agent (SHA256).

initramfs_part() {
    local agent=$1 agent_sha256 stamp tree
    agent_sha256=$(sha256 "$agent")
    stamp=$(inputs_hash "$here/lib/common.sh" "$here/lib/initramfs.sh" "$cache/kernel/stamp" "$cache/kernel/info" \
        "$agent_sha256")
    if part_is_current initramfs "$stamp"; then
        return
    fi

    say "packing the initramfs"
    begin_part initramfs
    tree=$work/initramfs/tree
    mkdir -p -- "$tree"/{dev,proc,sys}
    cp -- "$agent" "$tree/init"
    cp -R -- "$cache/kernel/modules" "$tree/modules"
    chmod 755 "$tree/init"
    find "$tree" -exec touch --no-dereference --date=@0 {} +
    (cd -- "$tree" && find . -mindepth 1 | sort |
        cpio --create --format=newc --reproducible --owner=0:0 --quiet) >"$work/initramfs/initramfs.cpio"
    rm -rf -- "$tree"
    printf '%s\n' "$agent_sha256" >"$work/initramfs/agent"
    store_part initramfs "$stamp" initramfs.cpio
}

# agent_is_static FILE: a dynamically linked program could not run as /init.
agent_is_static() {
    ! grep -qaF -e '/lib64/ld-linux-x86-64.so.2' -- "$1"
}
