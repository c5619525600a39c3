#!/usr/bin/env bash

trap 'exit 1' TERM

case "$(set -o)" in *"pipefail"*) set -o pipefail;; esac; set -o errexit
set +o noclobber
(trap 'exit 1' TERM; eval $'echo $\'\\x1b[32;1mDeleting tracked and untracked files...\\x1b[0;m\'\n
if [ -d "/builds/grp/demo" ]; then\n
  cd /builds/grp/demo\n
  git rm -rf --ignore-unmatch --quiet .\n
  git clean -ffdx -q\n
fi\n
') < /dev/null
exit 0
