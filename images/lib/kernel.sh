# shellcheck shell=bash disable=SC2154 # here, cache, work and refresh are set by build
# The guest kernel: Debian's cloud kernel as it is packaged, the same kernel unpacked to an ELF file (a guest
# that need not unpack it itself boots a third of a second sooner under emulation), and the modules a guest
# loads. Makes the cached part "kernel":
#   vmlinuz, vmlinux    the kernel
#   modules/            *.ko and the file "order"
#   debs                name of the .deb file
#   info                package, version, SHA256 of the .deb, kernel release: a line each

kernel_part() {
    local stamp deb package release
    stamp=$(inputs_hash "$here/lib/common.sh" "$here/lib/debian.sh" "$here/lib/kernel.sh" "$here/modules.list")
    if [[ -z $refresh ]] && part_is_current kernel "$stamp"; then
        return
    fi
    apt_update
    package=$(apt_dependency linux-image-cloud-amd64 'linux-image-[0-9.]+-[0-9]+-cloud-amd64')
    [[ -n $package ]] || die "linux-image-cloud-amd64 depends on no kernel package"
    deb=$(apt_file "$package")
    [[ -n $deb ]] || die "apt cannot download $package"
    if part_is_current kernel "$stamp" && [[ $(<"$cache/kernel/debs") == "$deb" ]]; then
        return
    fi

    say "unpacking $package"
    apt_fetch "$package"
    begin_part kernel
    release=${package#linux-image-}
    dpkg-deb --extract "$apt_dir/archives/$deb" "$work/kernel/package"
    mv -- "$work/kernel/package/boot/vmlinuz-$release" "$work/kernel/vmlinuz"
    kernel_unpack "$work/kernel/vmlinuz" "$work/kernel/vmlinux"
    kernel_modules "$work/kernel/package/lib/modules/$release" "$work/kernel/modules"
    rm -rf -- "$work/kernel/package"
    printf '%s\n' "$deb" >"$work/kernel/debs"
    {
        printf '%s\n' "$package"
        dpkg-deb --field "$apt_dir/archives/$deb" Version
        sha256 "$apt_dir/archives/$deb"
        printf '%s\n' "$release"
    } >"$work/kernel/info"
    store_part kernel "$stamp" vmlinuz vmlinux
}

# number FILE OFFSET BYTES: an unsigned little-endian number.
number() {
    od -An -v --endian=little -t "u$3" -j "$2" -N "$3" -- "$1" | tr -d ' '
}

# kernel_unpack BZIMAGE ELF: takes the compressed kernel out of its boot wrapper. Offsets are those of the setup
# header (Documentation/x86/boot.rst: setup_sects, payload_offset, payload_length).
kernel_unpack() {
    local image=$1 elf=$2 sectors offset length size
    sectors=$(number "$image" $((0x1f1)) 1)
    offset=$(((sectors + 1) * 512 + $(number "$image" $((0x248)) 4)))
    length=$(number "$image" $((0x24c)) 4)
    # The payload is in LZ4's legacy format, the unpacked size appended.
    [[ $(number "$image" "$offset" 4) == $((0x184c2102)) ]] || die "$image is not compressed with LZ4"
    size=$(number "$image" $((offset + length - 4)) 4)
    dd if="$image" iflag=skip_bytes,count_bytes skip="$offset" count=$((length - 4)) bs=1M status=none |
        lz4 -dcq >"$elf" || die "cannot unpack the kernel in $image"
    [[ $(stat -c %s -- "$elf") == "$size" && $(number "$elf" 0 4) == $((0x464c457f)) ]] ||
        die "what $image unpacks to is no ELF kernel"
}

# kernel_modules TREE TARGET: copies the modules of modules.list and what they depend on, and writes the load
# order. Dependencies come from the modules themselves: the package has no modules.dep.
kernel_modules() {
    local tree=$1 target=$2 path name parameters
    declare -gA module_path=() module_builtin=() module_done=()
    while read -r path; do
        name=${path##*/}
        name=${name%.ko}
        module_path[${name//-/_}]=$path
    done < <(find "$tree" -name '*.ko')
    while read -r path; do
        name=${path##*/}
        name=${name%.ko}
        module_builtin[${name//-/_}]=yes
    done <"$tree/modules.builtin"
    mkdir -p -- "$target"
    : >"$target/order"
    while read -r name parameters; do
        module_add "$target" "$name" "$parameters"
    done < <(entries "$here/modules.list")
}

# module_add TARGET NAME PARAMETERS: dependencies first; nothing for a module that is built into the kernel.
module_add() {
    local target=$1 name=${2//-/_} parameters=$3 path depends dependency
    if [[ -n ${module_done[$name]-} || -n ${module_builtin[$name]-} ]]; then
        return
    fi
    path=${module_path[$name]-}
    [[ -n $path ]] || die "the kernel has no module $name (see modules.list)"
    module_done[$name]=yes
    IFS=, read -ra depends < <(tr '\0' '\n' <"$path" | sed -n -e 's/^depends=//p')
    for dependency in "${depends[@]}"; do
        module_add "$target" "$dependency" ''
    done
    cp -- "$path" "$target/"
    printf '%s\n' "${path##*/}${parameters:+ $parameters}" >>"$target/order"
}
