/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Pauses of the scheduler programs: only benchmarks make any. Elsewhere `is_pausable` is a constant
 * to the verifier, and nothing of this is left in the programs.
 */
#ifndef RLS_BTF_PAUSE_H
#define RLS_BTF_PAUSE_H

#include "btf_filter.h"

/* Whether the recorder may take these programs away for a while, to see what they cost. */
const volatile bool is_pausable SEC(".rodata.pause") = false;
volatile struct rls_pause sched_pause SEC(".data.pause") = {};

/* What happened in the pause is not known: such a cycle is left out, and its time is lost. */
static __always_inline bool has_pause_in_cycle(const struct rls_track *track, __u64 now_ns)
{
	return is_pausable && track->off_ns < sched_pause.end_ns && now_ns >= sched_pause.start_ns;
}

#endif /* RLS_BTF_PAUSE_H */
