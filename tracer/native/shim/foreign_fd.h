// Descriptors that came from somebody else. Closing one can take for ever: a file of a user's own
// file system asks that user first.
#pragma once

namespace rls {

// Whether it is shared memory of the OS kernel's: nothing that is done to such a file waits.
bool IsSharedMemory(int fd);
// At once for shared memory; anything else is closed by a thread of its own.
void CloseForeign(int fd);
// Whether so many are being closed that no more should be taken.
bool IsClosingTooMany();
// Waits until all are closed, but not for long.
void WaitUntilClosed();

}  // namespace rls
