/* Known allocation wrappers. A row: layer, where it is recognised, glob. FUNCTION: the qualified name without arguments
 * ("rmm::mr::allocate"). MODULE and SOURCE: the path, or its last part. TOOLKIT and SYSTEM are modules. DISPATCH and
 * START are functions; START has the meaning of SYSTEM (wrappers.h). STANDARD is a function, a module or a source file.
 * SOURCE also recognises the files of Python frames. The first row that matches counts. */
#ifndef GM_BASE_WRAPPER_ROWS_H
#define GM_BASE_WRAPPER_ROWS_H

/* clang-format off */
#define GM_WRAPPER_ROWS(X)                                    \
    X("gpumem",         MODULE,   "libgpumem*")               \
    X("gpumem",         FUNCTION, "gpumem_*")                 \
    X("gpumem",         FUNCTION, "gm_*")                     \
    X("gpumem",         FUNCTION, "gpumem::*")                \
    X("CUDA runtime",   MODULE,   "libcudart*")               \
    X("CUDA runtime",   FUNCTION, "__device_stub__*")         \
    X("CUDA runtime",   FUNCTION, "cudaLaunchKernel*")        \
    X("CUDA driver",    TOOLKIT,  "libcuda.so*")              \
    X("CUDA driver",    FUNCTION, "cuMem*")                   \
    X("CUDA C++",       FUNCTION, "cuda::*")                  \
    X("cuBLAS",         TOOLKIT,  "libcublas*")               \
    X("cuDNN",          TOOLKIT,  "libcudnn*")                \
    X("cuSPARSE",       TOOLKIT,  "libcusparse*")             \
    X("cuFFT",          TOOLKIT,  "libcufft*")                \
    X("cuSOLVER",       TOOLKIT,  "libcusolver*")             \
    X("cuRAND",         TOOLKIT,  "libcurand*")               \
    X("cuTENSOR",       TOOLKIT,  "libcutensor*")             \
    X("NCCL",           TOOLKIT,  "libnccl*")                 \
    X("NVSHMEM",        TOOLKIT,  "libnvshmem*")              \
    X("NVRTC",          TOOLKIT,  "libnvrtc*")                \
    X("nvJitLink",      TOOLKIT,  "libnvJitLink*")            \
    X("nvJPEG",         TOOLKIT,  "libnvjpeg*")               \
    X("NPP",            TOOLKIT,  "libnpp*")                  \
    X("CUPTI",          TOOLKIT,  "libcupti*")                \
    X("Thrust",         FUNCTION, "thrust::*")                \
    X("CUB",            FUNCTION, "cub::*")                   \
    X("RMM",            FUNCTION, "rmm::*")                   \
    X("RMM",            MODULE,   "librmm*")                  \
    X("RMM",            MODULE,   "*/rmm/*")                  \
    X("RMM",            SOURCE,   "*-packages/rmm/*")         \
    X("PyTorch",        DISPATCH, "c10::impl::wrap_kernel_*") \
    X("PyTorch",        DISPATCH, "c10::impl::make_boxed_*")  \
    X("PyTorch",        DISPATCH, "c10::Dispatcher::*")       \
    X("PyTorch",        DISPATCH, "c10::KernelFunction::*")   \
    X("PyTorch",        DISPATCH, "c10::BoxedKernel::*")      \
    X("PyTorch",        DISPATCH, "at::_ops::*::call")        \
    X("PyTorch",        DISPATCH, "at::_ops::*::redispatch")  \
    X("PyTorch",        DISPATCH, "at::TensorIteratorBase::*") \
    X("PyTorch",        DISPATCH, "at::*(anonymous namespace)::create_out") \
    X("PyTorch",        DISPATCH, "torch::autograd::Engine::*") \
    X("PyTorch",        DISPATCH, "torch::autograd::python::PythonEngine::*") \
    X("PyTorch",        DISPATCH, "torch::autograd::Node::operator()") \
    X("PyTorch",        MODULE,   "libc10*")                  \
    X("PyTorch",        MODULE,   "libtorch*")                \
    X("PyTorch",        MODULE,   "*-packages/torch/*")       \
    X("PyTorch",        FUNCTION, "c10::*")                   \
    X("PyTorch",        FUNCTION, "at::*")                    \
    X("PyTorch",        FUNCTION, "torch::*")                 \
    X("PyTorch",        SOURCE,   "*-packages/torch/*")       \
    X("CuPy",           MODULE,   "*/cupy/*")                 \
    X("CuPy",           MODULE,   "*/cupy_backends/*")        \
    X("CuPy",           SOURCE,   "*-packages/cupy/*")        \
    X("CuPy",           SOURCE,   "*-packages/cupyx/*")       \
    X("CuPy",           SOURCE,   "cupy*.pyx")                \
    X("Numba",          MODULE,   "libffi.so*")               \
    X("Numba",          MODULE,   "_ctypes*.so")              \
    X("Numba",          MODULE,   "*/numba/*")                \
    X("Numba",          MODULE,   "*/numba_cuda/*")           \
    X("Numba",          SOURCE,   "*-packages/numba/*")       \
    X("Numba",          SOURCE,   "*-packages/numba_cuda/*")  \
    X("ctypes",         SOURCE,   "*/ctypes/__init__.py")     \
    X("CUDA Python",    MODULE,   "*-packages/cuda/*")        \
    X("CUDA Python",    SOURCE,   "*-packages/cuda/*")        \
    X("JAX",            MODULE,   "*/jaxlib/*")               \
    X("JAX",            MODULE,   "xla_*.so")                 \
    X("JAX",            MODULE,   "*/jax_plugins/*")          \
    X("JAX",            SOURCE,   "*-packages/jax/*")         \
    X("JAX",            SOURCE,   "*-packages/jaxlib/*")      \
    X("XLA",            FUNCTION, "xla::*")                   \
    X("XLA",            FUNCTION, "tsl::*")                   \
    X("XLA",            FUNCTION, "stream_executor::*")       \
    X("Python",         MODULE,   "libpython*")               \
    X("Python",         MODULE,   "python")                   \
    X("Python",         MODULE,   "python3")                  \
    X("Python",         MODULE,   "python3.*")                \
    X("Python",         SOURCE,   "<frozen *")                \
    X("libstdc++",      STANDARD, "libstdc++.so*")            \
    X("libstdc++",      STANDARD, "*/include/c++/*")          \
    X("libstdc++",      FUNCTION, "operator new*")            \
    X("libstdc++",      STANDARD, "std::*")                   \
    X("libstdc++",      STANDARD, "__gnu_cxx::*")             \
    X("C library",      SYSTEM,   "libc.so*")                 \
    X("C library",      SYSTEM,   "libc-2.*")                 \
    X("C library",      SYSTEM,   "libpthread*")              \
    X("C library",      SYSTEM,   "libc.musl*")               \
    X("C library",      SYSTEM,   "ld-linux*")                \
    X("C library",      START,    "_start")
/* clang-format on */

#endif
