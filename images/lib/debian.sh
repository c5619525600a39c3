# shellcheck shell=bash disable=SC2154 # here, cache, work and refresh are set by build
# Debian packages without root: apt with a state folder of its own, so that neither the packages installed on
# this machine nor its package lists matter. Sources, keys and proxies are the machine's; of what they offer,
# only packages of Debian 12 itself are taken.

apt_setup() {
    local suite
    apt_dir=$cache/apt
    # Closures are worked out against "empty": apt does not name what is downloaded already.
    mkdir -p -- "$apt_dir"/{lists,archives,empty}/partial "$apt_dir"/{state,preferences.d}
    : >"$apt_dir/status"
    {
        for suite in bookworm bookworm-updates bookworm-security; do
            printf 'Package: *\nPin: release o=Debian,n=%s\nPin-Priority: 500\n\n' "$suite"
        done
        printf 'Package: *\nPin: release a=*\nPin-Priority: -1\n'
    } >"$apt_dir/preferences"
    cat >"$apt_dir/apt.conf" <<EOF
Dir::State "$apt_dir/state";
Dir::State::Lists "$apt_dir/lists";
Dir::State::Status "$apt_dir/status";
Dir::Cache "$apt_dir";
Dir::Cache::Archives "$apt_dir/archives";
Dir::Etc::Preferences "$apt_dir/preferences";
Dir::Etc::PreferencesParts "$apt_dir/preferences.d";
APT::Architecture "amd64";
#clear APT::Architectures;
APT::Architectures { "amd64"; };
APT::Sandbox::User "root";
APT::Install-Recommends "false";
APT::Install-Suggests "false";
APT::Keep-Downloaded-Packages "true";
Acquire::Languages "none";
Acquire::Retries "3";
Debug::NoLocking "true";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
EOF
}

private_apt() {
    local tool=$1
    shift
    "$tool" --config-file="$apt_dir/apt.conf" "$@"
}

# Fetches the package lists, once a build. Those of the last build will do if the network is away.
apt_update() {
    if [[ -n ${apt_updated-} ]]; then
        return
    fi
    say "fetching Debian's package lists"
    if ! private_apt apt-get -qq update >&2; then
        say "warning: no new package lists; those of the last build are used"
    fi
    if ! private_apt apt-cache show base-files >/dev/null 2>&1; then
        die "apt knows no packages of Debian 12 (bookworm): check the network and /etc/apt/sources.list*"
    fi
    apt_updated=yes
}

# apt_closure PACKAGE...: the .deb files that installing these on an empty machine takes, a name a line, sorted.
# The names carry the versions.
apt_closure() {
    private_apt apt-get -qq --yes -o Dir::Cache::Archives="$apt_dir/empty" --print-uris install "$@" |
        cut -d' ' -f2 | sort
}

# apt_fetch_closure PACKAGE...: puts the same files into $apt_dir/archives; apt checks their hashes.
apt_fetch_closure() {
    private_apt apt-get -qq --yes --download-only install "$@" >&2
}

# apt_dependency PACKAGE PATTERN: the dependency whose name matches the extended regular expression.
apt_dependency() {
    private_apt apt-cache depends --important "$1" | sed -n -E "s/^ *Depends: ($2)\$/\\1/p" | head -n 1
}

# apt_file PACKAGE: the name of the newest version's .deb file.
apt_file() {
    (cd -- "$apt_dir/empty" && private_apt apt-get -qq --print-uris download "$1") | cut -d' ' -f2
}

# apt_fetch PACKAGE: puts that file into $apt_dir/archives.
apt_fetch() {
    (cd -- "$apt_dir/archives" && private_apt apt-get -qq download "$1" >&2)
}

# apt_keep_only LIST-FILE...: removes the downloads that no list names.
apt_keep_only() {
    local deb
    for deb in "$apt_dir"/archives/*.deb; do
        if [[ -e $deb ]] && ! grep -qxF -e "${deb##*/}" -- "$@"; then
            rm -f -- "$deb"
        fi
    done
}
