/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Messages that their reader did not sleep for. A reader that waits for a CPU when a message comes,
 * or that asks again and again whether one has come, is not woken by it: no scheduler event says
 * who sent it, and when.
 *
 * On kernels with BTF. Of each socket and pipe it is remembered who wrote first since all had been
 * read. What a reader finds there is what it would have slept for, had it had a CPU, or not asked.
 * That it asked is seen where all system calls are looked at, which is done for pipes.
 */
#include "btf_filter.h"
#include "btf_reason.h"

#define AF_UNIX 1

/* Whoever waited for a CPU for less may have slept for the message: no edge is worth a look. */
#define RLS_SHORT_WAIT_NS 50000

/* Who asked in vain so long ago has done something else since: it did not wait for the message. */
#define RLS_ASKED_LATELY_NS 200000

#define EAGAIN 11

/* What has not been read yet at one end. */
struct rls_unread {
	__u64 first_ns; /* when it was written, the first of it; 0: all is known to be read */
	__u32 sender_thread_id;
	__u32 is_begun; /* some of it has been read */
};

/* By the address of its socket or pipe. One that is forgotten costs the trace an edge. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct rls_unread);
} unread SEC(".maps");

static __always_inline struct rls_track *track_of_current(void)
{
	struct rls_track *track = track_of(bpf_get_current_task_btf());

	return track && track->thread_id ? track : 0;
}

/* is_first: nothing else is there. */
static __always_inline void message_sent(__u64 key, const struct rls_track *sender, bool is_first)
{
	struct rls_unread *known = bpf_map_lookup_elem(&unread, &key);
	struct rls_unread fresh = {};

	if (known && known->first_ns && !is_first)
		return;
	fresh.first_ns = bpf_ktime_get_ns();
	fresh.sender_thread_id = sender->thread_id;
	if (known)
		*known = fresh;
	else
		bpf_map_update_elem(&unread, &key, &fresh, BPF_ANY);
}

/* Since when the thread waited for the CPU that it has now. */
static __always_inline __u64 runnable_ns(const struct rls_track *track)
{
	if (track->off_state == RLS_OFF_RUNNABLE)
		return track->off_ns;
	return track->cycle_wake_ns ? track->cycle_wake_ns : track->in_ns;
}

static __always_inline bool waited_for_cpu(const struct rls_track *reader)
{
	return runnable_ns(reader) + RLS_SHORT_WAIT_NS <= reader->in_ns;
}

/* Whether the message came while the reader waited for a CPU, and did not wake it before that. */
static __always_inline bool came_meanwhile(const struct rls_track *reader,
					   const struct rls_unread *message)
{
	if (message->first_ns < runnable_ns(reader) || message->first_ns >= reader->in_ns)
		return false;
	return reader->off_state == RLS_OFF_RUNNABLE ||
	       reader->cycle_waker != (__s32)message->sender_thread_id;
}

/* Whether the reader asked for it just before it came, and has had its CPU since then. */
static __always_inline bool asked_in_vain(const struct rls_track *reader,
					  const struct rls_unread *message, __u64 now_ns)
{
	return reader->asked_ns < message->first_ns && reader->asked_ns >= reader->in_ns &&
	       now_ns - reader->asked_ns < RLS_ASKED_LATELY_NS;
}

static __always_inline void write_message(const struct rls_track *reader,
					  const struct rls_unread *message, __u16 file,
					  __u64 now_ns)
{
	struct rls_rec_message *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	if (!record) {
		count_loss(RLS_REC_MESSAGE, now_ns);
		return;
	}
	record->kind = RLS_REC_MESSAGE;
	record->file = file;
	record->thread_id = reader->thread_id;
	record->sent_ns = message->first_ns;
	record->read_ns = now_ns;
	record->sender_thread_id = message->sender_thread_id;
	record->reserved = 0;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* is_empty: nothing is left. */
static __always_inline void message_read(__u64 key, const struct rls_track *reader, bool is_empty,
					 __u16 file)
{
	struct rls_unread *message = bpf_map_lookup_elem(&unread, &key);
	__u64 now_ns;

	if (!message || !message->first_ns)
		return;
	if (!message->is_begun && message->sender_thread_id != reader->thread_id) {
		now_ns = bpf_ktime_get_ns();
		if ((waited_for_cpu(reader) && came_meanwhile(reader, message)) ||
		    asked_in_vain(reader, message, now_ns))
			write_message(reader, message, file, now_ns);
	}
	message->is_begun = 1;
	if (is_empty)
		message->first_ns = 0;
}

/* Since Linux 6.3: cheaper than to look at the system calls, and nobody pays who uses no socket. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(on_socket_send, struct sock *sk, int bytes)
{
	struct rls_track *track = track_of_current();
	struct unix_sock *socket;
	struct sock *peer;
	__u32 buffers;

	if (!track || bytes <= 0)
		return 0;
	socket = bpf_skc_to_unix_sock(sk);
	peer = socket ? socket->peer : 0;
	if (!peer)
		return 0;
	/* None: the reader was faster than this. */
	buffers = peer->sk_receive_queue.qlen;
	if (buffers)
		message_sent((__u64)peer, track, buffers == 1);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_socket_recv, struct sock *sk, int bytes)
{
	struct rls_track *track = track_of_current();

	if (track && bytes > 0 && sk->__sk_common.skc_family == AF_UNIX)
		message_read((__u64)sk, track, sk->sk_receive_queue.qlen == 0, RLS_FILE_SOCKET);
	return 0;
}

/* The memory of one that is gone is that of the next pipe, which has another number. */
static __always_inline __u64 key_of_pipe(const struct inode *inode,
					 const struct pipe_inode_info *pipe)
{
	return (__u64)pipe ^ ((__u64)BPF_CORE_READ(inode, i_ino) << 32);
}

/* Whether a system call found nothing to read. */
static __always_inline bool found_nothing(long call, long result)
{
	if (result == -EAGAIN)
		return call == SYS_READ || call == SYS_READV || call == SYS_RECVFROM ||
		       call == SYS_RECVMSG;
	if (result != 0)
		return false;
	return call == SYS_POLL || call == SYS_PPOLL || call == SYS_SELECT ||
	       call == SYS_PSELECT6 || call == SYS_EPOLL_WAIT || call == SYS_EPOLL_PWAIT;
}

/* Pipes have no tracepoint of their own. */
SEC("tp_btf/sys_exit")
int BPF_PROG(on_system_call, struct pt_regs *regs, long bytes)
{
	long call = system_call_of(regs);
	bool reads = call == SYS_READ || call == SYS_READV;
	struct pipe_inode_info *pipe;
	const struct inode *inode;
	struct rls_track *track;
	bool is_empty;

	if (found_nothing(call, bytes)) {
		track = track_of_current();
		if (track && !is_32_bit(bpf_get_current_task_btf()))
			track->asked_ns = bpf_ktime_get_ns();
		return 0;
	}
	if (bytes <= 0 || (!reads && call != SYS_WRITE && call != SYS_WRITEV))
		return 0;
	track = track_of_current();
	if (!track || is_32_bit(bpf_get_current_task_btf()))
		return 0;
	inode = inode_of(bpf_get_current_task_btf(), first_argument(regs));
	if (!inode || (BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFIFO)
		return 0;
	pipe = BPF_CORE_READ(inode, i_pipe);
	if (!pipe)
		return 0;
	is_empty = BPF_CORE_READ(pipe, head) == BPF_CORE_READ(pipe, tail);
	if (reads)
		message_read(key_of_pipe(inode, pipe), track, is_empty, RLS_FILE_PIPE);
	else if (!is_empty)
		message_sent(key_of_pipe(inode, pipe), track, false);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
