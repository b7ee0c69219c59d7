//! Scripts that nobody wrote: put together by chance from what scripts do, they come to the same too.
