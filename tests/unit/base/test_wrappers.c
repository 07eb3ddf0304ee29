/* Names of functions from symbols, and which frames are allocation wrappers. */
/* cmocka needs the four headers above first */
#include "tests/test.h"

#include "shim/base/function_name.h"
#include "shim/base/wrappers.h"

TEST(test_function_names) {
    static const char *const rows[][2] = {
        {"main", "main"},
        {"_Z5solvei", "solve"},
        {"_ZL6helperv", "helper"},
        {"_ZN3rmm2mr8allocateIcEEPT_m", "rmm::mr::allocate"},
        {"_ZN6thrust20THRUST_200302_800_NS6vectorIiSaIiEE6resizeEm", "thrust::THRUST_200302_800_NS::vector::resize"},
        {"_ZNK4llvm3FooILj4EE3barEv", "llvm::Foo::bar"},
        {"_ZN1AILNS_4ModeE2EE3runEv", "A::run"},
        {"_ZN1AIA5_cE3runEv", "A::run"},
        {"_ZN12_GLOBAL__N_14loadEv", "(anonymous namespace)::load"},
        {"_Znwm", "operator new"},
        {"_ZN4PoolnwEm", "Pool::operator new"},
        {"_ZN6BufferC2Em", "Buffer::Buffer"},
        {"_ZN6BufferD1Ev", "Buffer::~Buffer"},
        {"_ZNSt6vectorIiSaIiEE17_M_realloc_insertERKi", "std::vector::_M_realloc_insert"},
        {"_ZSt8for_eachIPiEvT_S1_", "std::for_each"},
        {"_ZZ4mainENKUlvE_clEv", "main"},
        {"_ZN1AIZ4mainEUlvE12_E3runEv", "A::run"},
        {"_Z", "_Z"},
        {"_ZN", "_ZN"},
        {"_ZN99x", "_ZN99x"},
        {"_ZN3foo9xI", "foo"},
    };
    char name[64];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gm_function_name(name, sizeof name, rows[i][0]);
        assert_string_equal(name, rows[i][1]);
    }
    gm_function_name(name, 8, "_ZN3rmm2mr8allocateIcEEPT_m");
    assert_string_equal(name, "rmm::mr");
}

/* Any text, cut anywhere, ends. */
TEST(test_nonsense) {
    static const char letters[] = "_ZNSILEUltXJFDA0123456789TKCabC";
    uint64_t random = 7;
    char symbol[80] = "_Z", name[32];
    for (unsigned i = 0; i < 200000; i++) {
        size_t length = 2 + i % 70;
        for (size_t k = 2; k < length; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            symbol[k] = letters[(random >> 40) % (sizeof letters - 1)];
        }
        symbol[length] = '\0';
        gm_function_name(name, sizeof name, symbol);
        assert_true(strlen(name) < sizeof name);
    }
}

TEST(test_runtime_functions) {
    assert_true(gm_function_is_runtime("cudaMalloc"));
    assert_true(gm_function_is_runtime("_ZL10cudaMallocIfE9cudaErrorPPT_m"));
    assert_true(gm_function_is_runtime("__cudart123"));
    assert_false(gm_function_is_runtime("cuda_solver"));
    assert_false(gm_function_is_runtime("main"));
}

static enum gm_wrapper_kind kind(const char *symbol, const char *module, const char *source) {
    return gm_wrapper_kind(&(struct gm_wrapper_frame){.symbol = symbol, .module = module, .source = source});
}

TEST(test_known_wrappers) {
    static const char *const modules[] = {
        "/usr/lib/libcublas.so.13",
        "/x/libnccl.so.2",
        "/usr/lib/python3/dist-packages/torch/lib/libtorch_cuda.so",
        "/venv/lib/python3.12/site-packages/cupy_backends/cuda/api/runtime.cpython-312.so",
        "/usr/lib/x86_64-linux-gnu/libffi.so.8.1.2",
        "/venv/site-packages/jaxlib/xla_extension.so",
        "/usr/bin/python3.11",
        "/x/libgpumem.so.0.1.0"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        assert_int_equal(kind(NULL, modules[i], NULL), GM_WRAPPER_LAYER);
    assert_int_equal(kind("_ZN3cub6detail5allocEv", "/home/me/app", "/home/me/app.cu"), GM_WRAPPER_LAYER);
    assert_int_equal(kind("load", "<python>", "/venv/lib/python3.12/site-packages/torch/cuda/memory.py"),
                     GM_WRAPPER_LAYER);
    assert_int_equal(kind("_ZL31__device_stub__Z8saxpy_gpuPfS_iPfS_i", "/x/app", NULL), GM_WRAPPER_LAYER);
    assert_int_equal(kind("_ZL16cudaLaunchKernelIcE9cudaErrorPT_4dim3S3_PPvmP11CUstream_st", "/x/app", NULL),
                     GM_WRAPPER_LAYER);
    assert_int_equal(kind("_ZN2at6native5emptyEi", "/x/libtorch_cpu.so", NULL), GM_WRAPPER_LAYER);
    static const char *const dispatching[] = {"_ZN3c104impl28wrap_kernel_functor_unboxed_IiFiiEE4callEPi",
                                              "_ZNK3c1010Dispatcher4callIiEEiv",
                                              "_ZN2at4_ops5zeros4callEi",
                                              "_ZN2at4_ops5zeros10redispatchEi",
                                              "_ZN2at18TensorIteratorBase5buildERi",
                                              "_ZN2at6native12_GLOBAL__N_110create_outEi",
                                              "_ZN2at12_GLOBAL__N_110create_outEi",
                                              "_ZN5torch8autograd6Engine11thread_mainEi"};
    for (size_t i = 0; i < sizeof dispatching / sizeof *dispatching; i++)
        assert_int_equal(kind(dispatching[i], "/x/libtorch_cpu.so", NULL), GM_WRAPPER_DISPATCH);
    assert_int_equal(kind(NULL, "/usr/lib/libstdc++.so.6", NULL), GM_WRAPPER_STANDARD);
    assert_int_equal(kind("_ZSt6invokeIPFvvEJEEvv", "/x/app", NULL), GM_WRAPPER_STANDARD);
    assert_int_equal(kind("__invoke", "/x/app", "/usr/include/c++/12/bits/invoke.h"), GM_WRAPPER_STANDARD);
    assert_int_equal(kind("__libc_start_main", "/lib/x86_64-linux-gnu/libc.so.6", NULL), GM_WRAPPER_SYSTEM);
    assert_int_equal(kind("_start", "/home/me/app", NULL), GM_WRAPPER_SYSTEM);
    assert_int_equal(kind("main", "/home/me/app", "/home/me/torch/main.cu"), GM_WRAPPER_NONE);
    assert_int_equal(kind("cubic", "/home/me/thrust", "/home/me/cub.c"), GM_WRAPPER_NONE);
    assert_int_equal(kind(NULL, NULL, NULL), GM_WRAPPER_NONE);
    assert_true(gm_wrapper_is_toolkit("/usr/lib/libcublasLt.so.13"));
    assert_false(gm_wrapper_is_toolkit("/x/libtorch.so"));
}

TEST(test_globs_of_the_user) {
    char error[200], many[2000] = "";
    assert_int_equal(kind("_ZN4pool3getEv", "/x/app", "/x/pool.cc"), GM_WRAPPER_NONE);
    for (unsigned i = 0; i < 300; i++)
        strcat(many, i ? ",x" : "x");
    assert_false(gm_wrappers_skip("", error, sizeof error));
    assert_false(gm_wrappers_skip("pool::*,,x", error, sizeof error));
    assert_false(gm_wrappers_skip(many, error, sizeof error));
    assert_int_equal(kind("_ZN4pool3getEv", "/x/app", "/x/pool.cc"), GM_WRAPPER_NONE); /* nothing was added */
    assert_true(gm_wrappers_skip("pool::*,lib?pool.so,arena*.c", error, sizeof error));
    assert_int_equal(kind("_ZN4pool3getEv", "/x/app", NULL), GM_WRAPPER_LAYER);
    assert_int_equal(kind("f", "/x/libmpool.so", NULL), GM_WRAPPER_LAYER);
    assert_int_equal(kind("f", "/x/app", "/x/arena_big.c"), GM_WRAPPER_LAYER);
    assert_int_equal(kind("f", "/x/app", "/x/arena.cc"), GM_WRAPPER_NONE);
    assert_int_equal(kind("_start", "/x/libmpool.so", NULL), GM_WRAPPER_SYSTEM);
    assert_true(gm_wrappers_step());
    assert_true(gm_wrappers_skip("slab::*,none", error, sizeof error));
    assert_false(gm_wrappers_step());
    assert_int_equal(kind("none", "/x/app", NULL), GM_WRAPPER_NONE);
    assert_int_equal(kind("_ZN4slab3getEv", "/x/app", NULL), GM_WRAPPER_LAYER);
}

int main(void) { return run_all(NULL, NULL); }
