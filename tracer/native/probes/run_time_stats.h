// Who may have the OS kernel time BPF programs: CAP_SYS_ADMIN only, which a recorder gives up. A
// process of its own keeps that right, and can do nothing else.
#pragma once

namespace rls {

// Has BPF programs timed until the descriptor that it returns is closed: by our own right, else by
// the server's. Throws std::system_error.
int EnableRunTimeStats();

// The socket of a server; -1: there is none. It stays the caller's.
void UseRunTimeStatsServer(int socket);

// Answers each byte that comes through the socket with such a descriptor, until its other end is
// closed. Confines the process to that and never returns.
[[noreturn]] void ServeRunTimeStats(int socket);

}  // namespace rls
