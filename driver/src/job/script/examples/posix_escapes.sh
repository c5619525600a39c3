#!/usr/bin/env bash

trap 'exit 1' TERM

case "$(set -o)" in *"pipefail"*) set -o pipefail;; esac; set -o errexit
set +o noclobber
(trap 'exit 1' TERM; eval "export FF_TEST_FEATURE=false
export FF_NETWORK_PER_BUILD=false
export FF_USE_LEGACY_KUBERNETES_EXECUTION_STRATEGY=false
export FF_USE_DIRECT_DOWNLOAD=true
export FF_USE_FASTZIP=true
export FF_DISABLE_UMASK_FOR_DOCKER_EXECUTOR=false
export FF_ENABLE_BASH_EXIT_CODE_CHECK=false
export FF_USE_WINDOWS_LEGACY_PROCESS_STRATEGY=false
export FF_USE_LEGACY_BASH_EVAL=false
export FF_USE_POWERSHELL_PATH_RESOLVER=false
export FF_USE_DYNAMIC_TRACE_FORCE_SEND_INTERVAL=false
export FF_SCRIPT_SECTIONS=false
export FF_ENABLE_JOB_CLEANUP=false
export FF_KUBERNETES_HONOR_ENTRYPOINT=false
export FF_POSIXLY_CORRECT_ESCAPES=true
export FF_RESOLVE_FULL_TLS_CHAIN=false
export FF_DISABLE_POWERSHELL_STDIN=false
export FF_USE_POD_ACTIVE_DEADLINE_SECONDS=true
export FF_USE_ADVANCED_POD_SPEC_CONFIGURATION=false
export FF_SECRET_RESOLVING_FAILS_IF_MISSING=true
export FF_PRINT_POD_EVENTS=false
export FF_USE_GIT_BUNDLE_URIS=true
export FF_USE_GIT_NATIVE_CLONE=false
export FF_USE_DUMB_INIT_WITH_KUBERNETES_EXECUTOR=false
export FF_USE_INIT_WITH_DOCKER_EXECUTOR=false
export FF_LOG_IMAGES_CONFIGURED_FOR_JOB=false
export FF_USE_DOCKER_AUTOSCALER_DIAL_STDIO=true
export FF_CLEAN_UP_FAILED_CACHE_EXTRACT=false
export FF_USE_WINDOWS_JOB_OBJECT=false
export FF_TIMESTAMPS=true
export FF_DISABLE_AUTOMATIC_TOKEN_ROTATION=false
export FF_USE_LEGACY_GCS_CACHE_ADAPTER=false
export FF_DISABLE_UMASK_FOR_KUBERNETES_EXECUTOR=false
export FF_USE_LEGACY_S3_CACHE_ADAPTER=false
export FF_GIT_URLS_WITHOUT_TOKENS=false
export FF_WAIT_FOR_POD_TO_BE_REACHABLE=false
export FF_MASK_ALL_DEFAULT_TOKENS=true
export FF_EXPORT_HIGH_CARDINALITY_METRICS=false
export FF_USE_FLEETING_ACQUIRE_HEARTBEATS=false
export FF_USE_EXPONENTIAL_BACKOFF_STAGE_RETRY=true
export FF_USE_ADAPTIVE_REQUEST_CONCURRENCY=true
export FF_USE_GITALY_CORRELATION_ID=true
export FF_USE_GIT_PROACTIVE_AUTH=false
export FF_HASH_CACHE_KEYS=false
export FF_ENABLE_JOB_INPUTS_INTERPOLATION=true
export FF_USE_JOB_ROUTER=false
export FF_SCRIPT_TO_STEP_MIGRATION=false
export FF_USE_PARALLEL_CACHE_TRANSFER=false
export FF_USE_PARALLEL_ARTIFACT_TRANSFER=false
export FF_CONCRETE=false
export FF_SUSPENDABLE_ENVIRONMENTS=false
export FF_USE_NATIVE_CONTAINER_STOP=false
export CI_RUNNER_SHORT_TOKEN=abcdefghi
export CI_BUILDS_DIR=/builds
export CI_PROJECT_DIR=/builds/grp/demo
export CI_CONCURRENT_ID=0
export CI_CONCURRENT_PROJECT_ID=0
export CI_SERVER=yes
export CI_JOB_STATUS=running
export CI_JOB_TIMEOUT=3600
export CI_PROJECT_PATH=grp/demo
export PLAIN=value-1.2/x_@,
export SP=\"a b\"
export EMPTY=''
export Q=\"it's \\\"q\\\"  \\\\ % + : ~ {}\"
export SEMI=a;b
export APO=it's
mkdir -p \"/builds/grp/demo.tmp\"
printf '%s' pem > \"/builds/grp/demo.tmp/CERT\"
export CERT=\"/builds/grp/demo.tmp/CERT\"
export CI_DISPOSABLE_ENVIRONMENT=true
export CI_RUNNER_VERSION=19.4.0
export CI_RUNNER_REVISION=d79f3e7b
export CI_RUNNER_EXECUTABLE_ARCH=linux/amd64
export RUNNER_TEMP_PROJECT_DIR=/builds/grp/demo.tmp
export GITLAB_ENV=/builds/grp/demo.tmp/gitlab_runner_env
mkdir -p \"/builds/grp/demo.tmp\"
touch \"/builds/grp/demo.tmp/gitlab_runner_env\"
while read -r line; do export \"\$line\"; done < \"/builds/grp/demo.tmp/gitlab_runner_env\"
cd /builds/grp/demo
echo \"[32;1m\\\$ echo \\\"it's \\\$HOME\\\" \\\`date\\\` a\\\\b	c[0;m\"
echo \"it's \$HOME\" \`date\` a\\b	c
echo \"[32;1m\\\$ echo é 🐤[0;m\"
echo é 🐤
") < /dev/null
exit 0
