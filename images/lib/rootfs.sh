# shellcheck shell=bash disable=SC2154 # here, cache, work and refresh are set by build
# The default job image: Debian packages unpacked into a folder, configured as their maintainer scripts would,
# and packed as EROFS. No chroot, no root, no namespaces: what little of the image must run, runs here through
# the image's own dynamic linker. All files belong to root, whoever builds. Makes the cached part "default":
#   default.erofs   the image
#   debs            names of the .deb files
#   packages        name, version, architecture and SHA256 of each package, a line each

default_part() {
    local stamp packages root deb
    stamp=$(inputs_hash "$here/lib/common.sh" "$here/lib/debian.sh" "$here/lib/rootfs.sh" "$here/packages.list")
    if [[ -z $refresh ]] && part_is_current default "$stamp"; then
        return
    fi
    apt_update
    mapfile -t packages < <(entries "$here/packages.list")
    apt_closure "${packages[@]}" >"$work/default.debs"
    [[ -s $work/default.debs ]] || die "apt cannot work out what packages.list needs"
    if part_is_current default "$stamp" && cmp -s -- "$cache/default/debs" "$work/default.debs"; then
        return
    fi

    say "downloading $(wc -l <"$work/default.debs") packages for local/default"
    apt_fetch_closure "${packages[@]}"
    say "making local/default"
    begin_part default
    mv -- "$work/default.debs" "$work/default/debs"
    while read -r deb; do
        # shellcheck disable=SC2016 # dpkg-deb expands these
        printf '%s %s\n' \
            "$(dpkg-deb --show --showformat='${Package} ${Version} ${Architecture}' "$apt_dir/archives/$deb")" \
            "$(sha256 "$apt_dir/archives/$deb")"
    done <"$work/default/debs" >"$work/default/packages"
    root=$work/default/root
    rootfs_unpack "$root" "$work/default/debs"
    rootfs_configure "$root"
    rootfs_pack "$root" "$work/default/default.erofs"
    rm -rf -- "$root"
    store_part default "$stamp" default.erofs
}

# rootfs_unpack ROOT LIST-FILE: unpacks the packages and enters them in the dpkg database below ROOT.
rootfs_unpack() {
    local root=$1 list=$2 dir deb
    # Debian 12 is merged: /bin and the like are links into /usr.
    for dir in bin sbin lib lib64; do
        mkdir -p -- "$root/usr/$dir"
        ln -s "usr/$dir" "$root/$dir"
    done
    mkdir -p -- "$root"/var/lib/dpkg/{info,triggers,updates}
    printf '1\n' >"$root/var/lib/dpkg/info/format"
    # Without these two dpkg would run every trigger of every package at its first use.
    : >"$root/var/lib/dpkg/triggers/Lock"
    : >"$root/var/lib/dpkg/triggers/Unincorp"
    : >"$root/var/lib/dpkg/available"
    while read -r deb; do
        dpkg-deb --fsys-tarfile "$apt_dir/archives/$deb" >"$work/data.tar"
        # Manual pages and translations only cost space; the licences stay.
        tar --extract --file "$work/data.tar" --directory "$root" --keep-directory-symlink --no-same-owner \
            --preserve-permissions --exclude='./usr/share/man/*' --exclude='./usr/share/info/*' \
            --exclude='./usr/share/locale/*' --exclude='./usr/share/lintian/*' \
            --exclude='./usr/share/doc/*/*.gz' --exclude='./usr/share/doc/*/*/*'
        rootfs_register "$root" "$apt_dir/archives/$deb"
    done <"$list"
    # The same for what a job installs.
    printf 'path-exclude=/usr/share/%s/*\n' man info locale lintian >"$root/etc/dpkg/dpkg.cfg.d/lean"
}

# rootfs_register ROOT DEB: what dpkg writes down of an installed package (deb(5), dpkg(1) "FILES"), so that
# dpkg and apt work in the image. Its content is in $work/data.tar.
rootfs_register() {
    local root=$1 deb=$2 control=$work/control name qualified prefix file
    rm -rf -- "$control"
    dpkg-deb --control "$deb" "$control"
    name=$(sed -n -e 's/^Package: //p' "$control/control")
    qualified=$name
    if grep -q '^Multi-Arch: same' "$control/control"; then
        qualified+=:$(sed -n -e 's/^Architecture: //p' "$control/control")
    fi
    prefix=$root/var/lib/dpkg/info/$qualified
    for file in "$control"/*; do
        if [[ ${file##*/} != control ]]; then
            cp -- "$file" "$prefix.${file##*/}"
        fi
    done
    tar --list --quoting-style=literal --file "$work/data.tar" | sed -e 's,^\./*,/,' -e 's,\(.\)/$,\1,' -e 's,^/$,/.,' >"$prefix.list"
    {
        printf 'Package: %s\nStatus: install ok installed\n' "$name"
        sed -e '/^Package:/d' -e '/^[[:space:]]*$/d' "$control/control"
        if [[ -f $control/conffiles ]]; then
            printf 'Conffiles:\n'
            while read -r file; do
                printf ' %s %s\n' "$file" "$(md5sum <"$root$file" | cut -d' ' -f1)"
            done < <(grep '^/' "$control/conffiles")
        fi
        printf '\n'
    } >>"$root/var/lib/dpkg/status"
    if [[ -f $control/triggers ]]; then
        rootfs_register_triggers "$root/var/lib/dpkg/triggers" "$qualified" "$control/triggers"
    fi
}

# rootfs_register_triggers FOLDER PACKAGE FILE: whom dpkg wakes when a package installs certain files or asks.
rootfs_register_triggers() {
    local folder=$1 package=$2 directive trigger
    while read -r directive trigger; do
        case $directive in
        interest-noawait) set -- "$package/noawait" ;;
        interest | interest-await) set -- "$package" ;;
        *) continue ;;
        esac
        if [[ $trigger == /* ]]; then
            printf '%s %s\n' "$trigger" "$1" >>"$folder/File"
        else
            printf '%s\n' "$1" >>"$folder/$trigger"
        fi
    done < <(entries "$3")
}

# in_image ROOT PROGRAM ARGUMENT...: runs the image's program on the host with the image's libraries.
in_image() {
    local root=$1 program=$2
    shift 2
    "$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/lib/x86_64-linux-gnu" "$root$program" "$@"
}

# rootfs_configure ROOT: what the maintainer scripts of these packages do on a first installation, as far as a
# job can tell.
rootfs_configure() {
    local root=$1
    rootfs_accounts "$root"
    rootfs_base_files "$root"
    rootfs_alternatives "$root"
    rootfs_certificates "$root"
    rootfs_pam "$root"
    # Static, so it runs as it is.
    "$root/sbin/ldconfig" -r "$root" -X
    # These hold times: the same packages shall make the same image.
    rm -f -- "$root/var/cache/ldconfig/aux-cache" "$root/var/log/alternatives.log"
}

rootfs_accounts() {
    local root=$1
    cp -- "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
    cp -- "$root/usr/share/base-passwd/group.master" "$root/etc/group"
    # openssh-client adds a group; shadowconfig moves the passwords, which nobody has, out of passwd.
    printf '_ssh:x:101:\n' >>"$root/etc/group"
    sed -i -e 's/^\([^:]*\):\*:/\1:x:/' "$root/etc/passwd"
    cut -d: -f1 "$root/etc/passwd" | sed -e 's/$/:*::0:99999:7:::/' >"$root/etc/shadow"
    sed -i -e 's/^\([^:]*\):\*:/\1:x:/' "$root/etc/group"
    cut -d: -f1 "$root/etc/group" | sed -e 's/$/:*::/' >"$root/etc/gshadow"
    chmod 600 "$root/etc/shadow" "$root/etc/gshadow"
    printf '/bin/sh\n/bin/bash\n/usr/bin/bash\n/bin/rbash\n/usr/bin/rbash\n/usr/bin/sh\n/bin/dash\n/usr/bin/dash\n' \
        >"$root/etc/shells"
}

rootfs_base_files() {
    local root=$1 dir defaults=$1/usr/share/base-files
    cp -- "$defaults/dot.profile" "$root/root/.profile"
    cp -- "$defaults/dot.bashrc" "$root/root/.bashrc"
    cp -- "$defaults/profile" "$defaults/motd" "$root/etc/"
    cp -- "$root/usr/share/libc-bin/nsswitch.conf" "$root/etc/nsswitch.conf"
    for dir in mnt srv opt media etc/opt var/opt var/mail usr/local/{bin,etc,games,include,lib,sbin,share/man,src}; do
        mkdir -p -- "$root/$dir"
    done
    ln -sfn share/man "$root/usr/local/man"
    ln -sfn ../mail "$root/var/spool/mail"
    ln -sfn debian "$root/etc/dpkg/origins/default"
    rm -rf -- "$root/var/run" "$root/var/lock"
    ln -s /run "$root/var/run"
    ln -s /run/lock "$root/var/lock"
    ln -sfn /usr/share/zoneinfo/Etc/UTC "$root/etc/localtime"
    printf 'Etc/UTC\n' >"$root/etc/timezone"
    : >"$root/etc/fstab"
    : >"$root/etc/environment"
    cat >"$root/etc/apt/sources.list.d/debian.sources" <<'EOF'
Types: deb
URIs: http://deb.debian.org/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://deb.debian.org/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
EOF
}

# rootfs_alternatives ROOT: the commands that are reached through a link of update-alternatives. Each line is
# link, program, priority, then link and program of what follows it, as the packages' scripts name them.
rootfs_alternatives() {
    local root=$1 link program priority slaves arguments i
    while read -r link program priority slaves; do
        [[ -e $root$program ]] || die "internal: $program is not in the image; see rootfs_alternatives"
        arguments=()
        read -ra slaves <<<"$slaves"
        for ((i = 0; i < ${#slaves[@]}; i += 2)); do
            arguments+=(--slave "${slaves[i]}" "${slaves[i]##*/}" "${slaves[i + 1]}")
        done
        update-alternatives --root "$root" --quiet \
            --install "$link" "${link##*/}" "$program" "$priority" "${arguments[@]}"
    done <<'EOF'
/usr/bin/awk /usr/bin/mawk 5 /usr/bin/nawk /usr/bin/mawk
/usr/bin/lzma /usr/bin/xz 20 /usr/bin/unlzma /usr/bin/unxz /usr/bin/lzcat /usr/bin/xzcat
/usr/bin/pager /usr/bin/less 77
/usr/bin/which /usr/bin/which.debianutils 0
/usr/sbin/rmt /usr/sbin/rmt-tar 50
EOF
}

# rootfs_certificates ROOT: what update-ca-certificates makes: the bundle, and links by name and by hash.
rootfs_certificates() {
    local root=$1 certificate name certs=$1/etc/ssl/certs
    mkdir -p -- "$certs" "$work/certificates"
    (cd -- "$root/usr/share/ca-certificates" && find . -name '*.crt' | sed -e 's,^\./,,' | sort) \
        >"$root/etc/ca-certificates.conf"
    while read -r certificate; do
        name=${certificate##*/}
        name=${name%.crt}.pem
        cat -- "$root/usr/share/ca-certificates/$certificate" >>"$certs/ca-certificates.crt"
        # The links are absolute, so they lead nowhere here: the hashes are taken of copies.
        ln -s "/usr/share/ca-certificates/$certificate" "$certs/$name"
        cp -- "$root/usr/share/ca-certificates/$certificate" "$work/certificates/$name"
    done <"$root/etc/ca-certificates.conf"
    in_image "$root" /usr/bin/openssl rehash "$work/certificates"
    find "$work/certificates" -type l -exec cp --no-dereference -t "$certs" {} +
    rm -rf -- "$work/certificates"
}

# rootfs_pam ROOT: what pam-auth-update makes of pam_unix alone: su and runuser need it.
rootfs_pam() {
    local root=$1 type
    for type in account auth password; do
        printf '%s [success=1 default=ignore] pam_unix.so%s\n%s requisite pam_deny.so\n%s required pam_permit.so\n' \
            "$type" "$([[ $type != auth ]] || echo ' nullok')$([[ $type != password ]] || echo ' obscure yescrypt')" \
            "$type" "$type" >"$root/etc/pam.d/common-$type"
    done
    for type in session session-noninteractive; do
        printf 'session required pam_unix.so\n' >"$root/etc/pam.d/common-$type"
    done
}

# rootfs_pack ROOT IMAGE: the folder as EROFS, the same bytes for the same content.
rootfs_pack() {
    local root=$1 image=$2
    # Groups other than root's are lost, so set-group-id would mean nothing good.
    find "$root" -perm -2000 ! -type l -exec chmod g-s {} +
    mkfs.erofs --quiet --all-root -T0 -U 00000000-0000-0000-0000-000000000000 -x-1 "$image" "$root" >&2 ||
        die "mkfs.erofs failed"
}
