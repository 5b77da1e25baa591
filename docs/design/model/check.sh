#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks store.pml exhaustively, and that its mutants are found. README.md explains the runs.
#
#   check.sh [work directory]     the default is a temporary one, removed at the end
#
# Exit status: 0 all as expected; 1 not; 77 when spin or a C compiler is missing (ctest: skipped).
set -euo pipefail

model=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/store.pml

if ! command -v spin > /dev/null; then
    echo "skipped: 'spin' is not installed (Debian and Ubuntu: apt install spin)"
    exit 77
fi
cc=
for candidate in ${CC:-} cc gcc clang; do
    if command -v "$candidate" > /dev/null; then
        cc=$candidate
        break
    fi
done
if [[ -z $cc ]]; then
    echo "skipped: no C compiler (looked for \$CC, cc, gcc, clang)"
    exit 77
fi

if [[ $# -ge 1 ]]; then
    mkdir -p "$1"
    work=$(cd "$1" && pwd)
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
cd "$work"

failures=0
format='%-66s %9s %4ss  %s\n'

# verify <compiler flags> <pan flags> <model macros...>: leaves pan's output in `out`.
verify() {
    local compile=$1 search=$2
    shift 2
    local macros=("${@/#/-D}")
    rm -f -- pan* ./*.trail out
    spin -P"$cc -E -x c" -a "${macros[@]}" "$model" > spin.log || { cat spin.log; exit 1; }
    # shellcheck disable=SC2086  # the flags are lists of words
    "$cc" $compile -DCOLLAPSE -DMEMLIM=4096 -w -o pan pan.c
    # shellcheck disable=SC2086
    ./pan -m10000 $search > out 2>&1 || true
}

states() { awk '/states, stored/ { print $1; exit }' out; }

# What pan found, in our words.
reason() {
    case $(grep -m1 '^pan:1:' out || true) in
        *'invalid end state'*) echo "somebody waits for ever after close_input" ;;
        *'non-progress cycle'*) echo "somebody spins" ;;
        *kept*) echo "a consumer waits for its own lease" ;;
        *'q_len(producers)'*) echo "a producer is stranded" ;;
        *'q_len(consumers)'*) echo "a consumer is stranded" ;;
        *who*) echo "a lease without its samples" ;;
        *slot*) echo "a slot written that is not free" ;;
        *'assertion violated'*) echo "another assertion" ;;
        *) echo "nothing" ;;
    esac
}

was_exhaustive() {
    ! grep -qiE 'not completed|too small|out of memory|MEMLIM|truncated|aborted' out
}

report() {  # <what> <seconds> <verdict>
    # shellcheck disable=SC2059
    printf "$format" "$1" "$(states)" "$2" "$3"
}

good() {
    local start=$SECONDS verdict
    verify "$1" "$2" "${@:3}"
    if ! grep -q 'errors: ' out; then
        verdict="FAILED: the verifier died"
    elif ! grep -q 'errors: 0$' out; then
        verdict="FAILED: $(reason)"
    elif ! was_exhaustive; then
        verdict="FAILED: not exhaustive"
    else
        verdict="holds"
    fi
    if [[ $verdict != holds ]]; then
        failures=$((failures + 1))
    fi
    report "${*:3}" $((SECONDS - start)) "$verdict${2:+ (no cycle)}"
}

safe() { good "-O1 -DSAFETY" "" "$@"; }
ends() { good "-O1 -DNP" "-l" "$@"; }      # no cycle at all: every execution is finite

mutant() {  # <expected reason> <macros...>
    local start=$SECONDS expected=$1 found verdict
    shift
    verify "-O0 -DSAFETY" "" "$@"
    found=$(reason)
    if [[ $found == "$expected" ]]; then
        verdict="found: $found"
    else
        verdict="FAILED: expected '$expected', found '$found'"
        failures=$((failures + 1))
    fi
    report "$*" $((SECONDS - start)) "$verdict"
}

# shellcheck disable=SC2059
printf "$format" "run" "states" "" "verdict"

safe BATCH_SIZE=1 NUM_BUFFERS=2 PRODUCERS=2 SAMPLES=5
safe BATCH_SIZE=1 NUM_BUFFERS=3 PRODUCERS=2 SAMPLES=5
safe BATCH_SIZE=1 NUM_BUFFERS=2 PRODUCERS=3 SAMPLES=4
safe BATCH_SIZE=1 NUM_BUFFERS=2 PRODUCERS=2 SAMPLES=4 CANCEL=1
safe BATCH_SIZE=1 NUM_BUFFERS=2 PRODUCERS=2 SAMPLES=3 CANCEL=1 CLOSE
safe BATCH_SIZE=2 NUM_BUFFERS=2 PRODUCERS=2 SAMPLES=5 CANCEL=1
safe BATCH_SIZE=2 NUM_BUFFERS=3 PRODUCERS=2 SAMPLES=5 CLOSE
safe BATCH_SIZE=2 NUM_BUFFERS=2 PRODUCERS=2 SAMPLES=3 CANCEL=1 CLOSE
safe BATCH_SIZE=1 NUM_BUFFERS=2 PRODUCERS=2 SAMPLES=4 OWN_LEASE_FAILS OWN_LEASE_MUST_NOT_BLOCK
ends BATCH_SIZE=1 NUM_BUFFERS=2 PRODUCERS=2 SAMPLES=3
ends BATCH_SIZE=2 NUM_BUFFERS=2 PRODUCERS=2 SAMPLES=3 CANCEL=1

producer="a producer is stranded"
consumer="a consumer is stranded"
after_close="somebody waits for ever after close_input"
lease="a lease without its samples"

mutant "$producer" BATCH_SIZE=1 NUM_BUFFERS=2 SAMPLES=3 ECHO_WAKE
mutant "$producer" BATCH_SIZE=1 NUM_BUFFERS=3 SAMPLES=5 EVENT_SIZED_RELEASE
mutant "$consumer" BATCH_SIZE=1 NUM_BUFFERS=2 SAMPLES=2 EVENT_SIZED_COMPLETION
mutant "$producer" BATCH_SIZE=1 NUM_BUFFERS=2 SAMPLES=4 CANCEL=1 DROP_PRODUCER_PERMIT
mutant "$consumer" BATCH_SIZE=1 NUM_BUFFERS=2 SAMPLES=1 CANCEL=1 DROP_CONSUMER_PERMIT
mutant "$producer" BATCH_SIZE=1 NUM_BUFFERS=2 SAMPLES=3 NO_SECOND_TRY_TO_RESERVE
mutant "$consumer" BATCH_SIZE=1 NUM_BUFFERS=2 SAMPLES=1 NO_SECOND_TRY_TO_LEASE
mutant "$after_close" BATCH_SIZE=2 NUM_BUFFERS=2 SAMPLES=1 CLOSE CLOSE_CHECK_FIRST
mutant "$after_close" BATCH_SIZE=2 NUM_BUFFERS=2 SAMPLES=1 CLOSE END_NOT_COUNTED
mutant "$consumer" BATCH_SIZE=1 NUM_BUFFERS=2 SAMPLES=1 CANCEL=1 PEEK_WITHOUT_LOCK
mutant "$lease" BATCH_SIZE=1 NUM_BUFFERS=2 SAMPLES=2 RELEASE_OPENS_FIRST
mutant "$lease" BATCH_SIZE=1 NUM_BUFFERS=2 SAMPLES=2 LEASE_LOADS_COMMITTED_FIRST
mutant "a consumer waits for its own lease" \
    BATCH_SIZE=1 NUM_BUFFERS=2 SAMPLES=3 OWN_LEASE_MUST_NOT_BLOCK

if [[ $failures -ne 0 ]]; then
    echo "$failures of the runs above FAILED"
    exit 1
fi
echo "all runs as expected in ${SECONDS}s"
