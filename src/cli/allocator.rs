//! glibc's allocator.

use std::ffi::c_int;

/// What is at least this large gets memory of its own from the system, and returns it when it is freed, in bytes. This is
/// glibc's own number (mallopt(3), `M_MMAP_THRESHOLD`).
const OF_ITS_OWN: c_int = 128 * 1024;

/// Keeps glibc's number from rising to the largest buffer that was ever freed, which it does unless a program sets it. Responses
/// and messages of megabytes would come out of the memory that small things share, and leave holes there: under attack, a server
/// with 500 groups had 134 MB after 4 minutes, and rising. With this, it had 84 MB at most.
#[expect(unsafe_code, reason = "nothing that is safe calls mallopt")]
pub(super) fn return_large_buffers() {
    // SAFETY: mallopt takes two integers and touches no memory of ours. Nothing depends on whether it accepts them.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, OF_ITS_OWN) };
}
