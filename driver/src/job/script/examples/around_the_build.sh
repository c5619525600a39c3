#!/usr/bin/env bash

trap 'exit 1' TERM

case "$(set -o)" in *"pipefail"*) set -o pipefail;; esac; set -o errexit
set +o noclobber
(trap 'exit 1' TERM; eval $'export FF_TEST_FEATURE=false\n
export FF_NETWORK_PER_BUILD=false\n
export FF_USE_LEGACY_KUBERNETES_EXECUTION_STRATEGY=false\n
export FF_USE_DIRECT_DOWNLOAD=true\n
export FF_USE_FASTZIP=true\n
export FF_DISABLE_UMASK_FOR_DOCKER_EXECUTOR=false\n
export FF_ENABLE_BASH_EXIT_CODE_CHECK=false\n
export FF_USE_WINDOWS_LEGACY_PROCESS_STRATEGY=false\n
export FF_USE_LEGACY_BASH_EVAL=false\n
export FF_USE_POWERSHELL_PATH_RESOLVER=false\n
export FF_USE_DYNAMIC_TRACE_FORCE_SEND_INTERVAL=false\n
export FF_SCRIPT_SECTIONS=false\n
export FF_ENABLE_JOB_CLEANUP=false\n
export FF_KUBERNETES_HONOR_ENTRYPOINT=false\n
export FF_POSIXLY_CORRECT_ESCAPES=false\n
export FF_RESOLVE_FULL_TLS_CHAIN=false\n
export FF_DISABLE_POWERSHELL_STDIN=false\n
export FF_USE_POD_ACTIVE_DEADLINE_SECONDS=true\n
export FF_USE_ADVANCED_POD_SPEC_CONFIGURATION=false\n
export FF_SECRET_RESOLVING_FAILS_IF_MISSING=true\n
export FF_PRINT_POD_EVENTS=false\n
export FF_USE_GIT_BUNDLE_URIS=true\n
export FF_USE_GIT_NATIVE_CLONE=false\n
export FF_USE_DUMB_INIT_WITH_KUBERNETES_EXECUTOR=false\n
export FF_USE_INIT_WITH_DOCKER_EXECUTOR=false\n
export FF_LOG_IMAGES_CONFIGURED_FOR_JOB=false\n
export FF_USE_DOCKER_AUTOSCALER_DIAL_STDIO=true\n
export FF_CLEAN_UP_FAILED_CACHE_EXTRACT=false\n
export FF_USE_WINDOWS_JOB_OBJECT=false\n
export FF_TIMESTAMPS=true\n
export FF_DISABLE_AUTOMATIC_TOKEN_ROTATION=false\n
export FF_USE_LEGACY_GCS_CACHE_ADAPTER=false\n
export FF_DISABLE_UMASK_FOR_KUBERNETES_EXECUTOR=false\n
export FF_USE_LEGACY_S3_CACHE_ADAPTER=false\n
export FF_GIT_URLS_WITHOUT_TOKENS=false\n
export FF_WAIT_FOR_POD_TO_BE_REACHABLE=false\n
export FF_MASK_ALL_DEFAULT_TOKENS=true\n
export FF_EXPORT_HIGH_CARDINALITY_METRICS=false\n
export FF_USE_FLEETING_ACQUIRE_HEARTBEATS=false\n
export FF_USE_EXPONENTIAL_BACKOFF_STAGE_RETRY=true\n
export FF_USE_ADAPTIVE_REQUEST_CONCURRENCY=true\n
export FF_USE_GITALY_CORRELATION_ID=true\n
export FF_USE_GIT_PROACTIVE_AUTH=false\n
export FF_HASH_CACHE_KEYS=false\n
export FF_ENABLE_JOB_INPUTS_INTERPOLATION=true\n
export FF_USE_JOB_ROUTER=false\n
export FF_SCRIPT_TO_STEP_MIGRATION=false\n
export FF_USE_PARALLEL_CACHE_TRANSFER=false\n
export FF_USE_PARALLEL_ARTIFACT_TRANSFER=false\n
export FF_CONCRETE=false\n
export FF_SUSPENDABLE_ENVIRONMENTS=false\n
export FF_USE_NATIVE_CONTAINER_STOP=false\n
export CI_RUNNER_SHORT_TOKEN=abcdefghi\n
export CI_BUILDS_DIR=/builds\n
export CI_PROJECT_DIR=/builds/grp/demo\n
export CI_CONCURRENT_ID=0\n
export CI_CONCURRENT_PROJECT_ID=0\n
export CI_SERVER=yes\n
export CI_JOB_STATUS=running\n
export CI_JOB_TIMEOUT=3600\n
export CI_PROJECT_PATH=grp/demo\n
export CI_DISPOSABLE_ENVIRONMENT=true\n
export CI_RUNNER_VERSION=19.4.0\n
export CI_RUNNER_REVISION=d79f3e7b\n
export CI_RUNNER_EXECUTABLE_ARCH=linux/amd64\n
export RUNNER_TEMP_PROJECT_DIR=/builds/grp/demo.tmp\n
export GITLAB_ENV=/builds/grp/demo.tmp/gitlab_runner_env\n
mkdir -p "/builds/grp/demo.tmp"\n
touch "/builds/grp/demo.tmp/gitlab_runner_env"\n
while read -r line; do export "$line"; done < "/builds/grp/demo.tmp/gitlab_runner_env"\n
cd /builds/grp/demo\n
echo $\'\\x1b[32;1m$ echo pre # collapsed multi-line command\\x1b[0;m\'\n
echo pre\n
echo pre2\n
echo $\'\\x1b[32;1m$ make\\x1b[0;m\'\n
make\n
echo $\'\\x1b[32;1m$ echo post\\x1b[0;m\'\n
echo post\n
') < /dev/null
exit 0
