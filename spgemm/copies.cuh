/* Asynchronous copies from global to shared memory. They need no register, so many can be under way. */
#ifndef SPG_COPIES_CUH
#define SPG_COPIES_CUH

/* Starts the copy of one element of 4, 8 or 16 bytes. */
template <typename E> __device__ void spg_copy_async(E *to, const E *from) {
#ifdef __CUDA_ARCH__
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(sizeof(E)) : "memory");
#else
    *to = *from;
#endif
}

/* Waits for the copies of the calling thread. */
inline __device__ void spg_wait_for_copies() {
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

#endif
