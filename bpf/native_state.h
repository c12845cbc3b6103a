/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the native probes and the collector share: the cookie of a probe point, the probe sites,
 * and what the programs count.
 */
#ifndef RLS_NATIVE_STATE_H
#define RLS_NATIVE_STATE_H

#include "track.h"

/* The cookie of a probe point: site_id in bits 0..31, layer in 32..39, link in 40..63. */
#define RLS_NATIVE_COOKIE(site, layer, link) \
	((rls_u64)(site) | (rls_u64)(layer) << 32 | (rls_u64)(link) << 40)
#define RLS_NATIVE_SITE(cookie) ((rls_u32)(cookie))
#define RLS_NATIVE_LAYER(cookie) ((rls_u8)((cookie) >> 32))
#define RLS_NATIVE_LINK(cookie) ((rls_u32)((cookie) >> 40))

/* Links are numbered from 1: of a site that no link serves, no call is recorded. */
#define RLS_NATIVE_NO_LINK 0
#define RLS_NATIVE_LINKS (1 << 24)

/* Calls of one site that have ended, also those whose record was lost. */
struct rls_native_counter {
	rls_u64 hits;
	rls_u64 time_ns;
};

/* Why a call is not in the trace, per CPU. */
struct rls_native_losses {
	rls_u64 unmatched; /* returns of calls whose entry was not seen */
	rls_u64 too_deep;  /* calls inside RLS_NATIVE_DEPTH others */
	rls_u64 abandoned; /* under way when their link was replaced */
	rls_u64 declined;  /* in a signal handler on a stack of its own, inside another call */
	rls_u64 failed;	   /* no memory to remember a thread's calls */
};

#ifndef RLS_BPF_SIDE
RLS_ASSERT_SIZE(rls_native_counter, 16);
RLS_ASSERT_SIZE(rls_native_losses, 40);
#endif

#endif /* RLS_NATIVE_STATE_H */
