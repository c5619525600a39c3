# shellcheck shell=bash disable=SC2154 # here, cache, work and refresh are set by build
# manifest.json: what the files beside it are. The strings in it (package names, versions, hashes, file names)
# need no JSON escapes.

# Prints the manifest of the cached parts.
manifest() {
    local separator name version architecture hash size release module
    {
        read -r name
        read -r version
        read -r hash
        read -r release
    } <"$cache/kernel/info"
    printf '{\n  "format": 1,\n'
    printf '  "inputs": "%s",\n' "$(inputs_hash "$cache"/{kernel,initramfs,default}/stamp "$cache"/{kernel,default}/debs)"
    printf '  "kernel": {\n    "package": "%s",\n    "version": "%s",\n    "sha256": "%s",\n    "release": "%s"\n  },\n' \
        "$name" "$version" "$hash" "$release"

    printf '  "modules": ['
    separator=''
    while read -r module; do
        printf '%s\n    "%s"' "$separator" "$module"
        separator=,
    done <"$cache/kernel/modules/order"
    printf '\n  ],\n'

    printf '  "agent": {\n    "sha256": "%s"\n  },\n' "$(<"$cache/initramfs/agent")"

    printf '  "default_image": {\n    "name": "local/default",\n    "packages": ['
    separator=''
    while read -r name version architecture hash; do
        printf '%s\n      {"name": "%s", "version": "%s", "architecture": "%s", "sha256": "%s"}' \
            "$separator" "$name" "$version" "$architecture" "$hash"
        separator=,
    done <"$cache/default/packages"
    printf '\n    ]\n  },\n'

    printf '  "files": {'
    separator=''
    while read -r name size hash; do
        printf '%s\n    "%s": {"size": %s, "sha256": "%s"}' "$separator" "$name" "$size" "$hash"
        separator=,
    done < <(cat "$cache"/{kernel,initramfs,default}/sums)
    printf '\n  }\n}\n'
}
