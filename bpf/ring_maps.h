/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The way out of the OS kernel, the same for every object that libbpf loads.
 */
#ifndef RLS_RING_MAPS_H
#define RLS_RING_MAPS_H

#include "records.h"

/* Records on their way to the collector; its size is set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} ring SEC(".maps");

/* Per CPU: record kind -> records that found the ring full. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RLS_REC_KINDS);
	__type(key, __u32);
	__type(value, struct rls_loss);
} loss SEC(".maps");

#endif /* RLS_RING_MAPS_H */
