/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The maps of sched_tp.bpf.c in the dialects of its two loaders. bcc rewrites method
 * calls on maps and refuses them inside macros of its own preprocessor run, so it is
 * given the source with these already expanded.
 */
#ifndef RLS_TP_MAPS_H
#define RLS_TP_MAPS_H

#define RLS_MAX_THREADS 65536

#ifdef RLS_BCC

BPF_HASH(threads, rls_u32, struct rls_track, RLS_MAX_THREADS);
BPF_RINGBUF_OUTPUT(ring, RLS_RING_PAGES);
BPF_PERCPU_ARRAY(loss, struct rls_loss, RLS_REC_KINDS);
BPF_ARRAY(control, struct rls_control, 1);

#define PROGRAM(section)
#define OFFSET(name) RLS_OFFSET_##name
#define THREAD_OF(tid) threads.lookup(&tid)
#define THREAD_ADD(tid, track) threads.update(&tid, &track)
#define THREAD_FORGET(tid) threads.delete(&tid)
#define LOSS_OF(kind) loss.lookup(&kind)
#define CONTROL(zero) control.lookup(&zero)
#define RESERVE(type) ring.ringbuf_reserve(sizeof(struct type))
#define SUBMIT(record) ring.ringbuf_submit(record, 1 /* BPF_RB_NO_WAKEUP */)

#else

#include "ring_maps.h"

/* Traced threads: tid in the initial pid namespace -> what is remembered of each. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RLS_MAX_THREADS);
	__type(key, rls_u32);
	__type(value, struct rls_track);
} threads SEC(".maps");

/* 0 -> the counters of the programs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, rls_u32);
	__type(value, struct rls_control);
} control SEC(".maps");

const volatile struct rls_tp_offsets offsets = {};

#define PROGRAM(section) SEC(section)
#define OFFSET(name) offsets.name
#define THREAD_OF(tid) bpf_map_lookup_elem(&threads, &tid)
#define THREAD_ADD(tid, track) bpf_map_update_elem(&threads, &tid, &track, BPF_ANY)
#define THREAD_FORGET(tid) bpf_map_delete_elem(&threads, &tid)
#define LOSS_OF(kind) bpf_map_lookup_elem(&loss, &kind)
#define CONTROL(zero) bpf_map_lookup_elem(&control, &zero)
#define RESERVE(type) bpf_ringbuf_reserve(&ring, sizeof(struct type), 0)
#define SUBMIT(record) bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP)

#endif
#endif /* RLS_TP_MAPS_H */
