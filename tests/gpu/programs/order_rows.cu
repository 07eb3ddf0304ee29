// What the cases of order_*.cu are made of (order_rows.h), and the program: order_rows CASE | --list.
#include "order_rows.h"

#include <csignal>
#include <dlfcn.h>

Order order;
static char first_wrong[400];

__device__ static void spin_for(unsigned long long ns) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < ns);
}

__global__ void order_late_write(volatile unsigned *word, unsigned value, unsigned long long ns, int triggers) {
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    if (triggers)
        asm volatile("griddepcontrol.launch_dependents;");
#endif
    spin_for(ns);
    *word = value;
    __threadfence_system();
}

__global__ void order_read(const volatile unsigned *word, unsigned value, unsigned *bad) {
    if (*word != value)
        atomicAdd(bad, 1u);
}

__global__ void order_spin(unsigned long long ns) { spin_for(ns); }

__global__ void order_fault(unsigned *address, unsigned long long ns) {
    spin_for(ns);
    *(volatile unsigned *)address = 1;
}

#ifdef SIM_TWINS
#include "simcuda.h"

static void late_write_twin(const struct simcuda_launch *launch) {
    unsigned *word = (unsigned *)launch->touch(*(void **)launch->args[0], 4, 1);
    if (word)
        *word = *(unsigned *)launch->args[1];
}
static void read_twin(const struct simcuda_launch *launch) {
    const unsigned *word = (const unsigned *)launch->touch(*(void **)launch->args[0], 4, 0);
    unsigned *bad = (unsigned *)launch->touch(*(void **)launch->args[2], 4, 1);
    if (word && bad)
        *bad += *word != *(unsigned *)launch->args[1];
}
static void spin_twin(const struct simcuda_launch *launch) { (void)launch; }
static void fault_twin(const struct simcuda_launch *launch) { launch->touch((void *)16, 4, 1); }

SIMCUDA_TWIN(_Z16order_late_writePVjjyi, "p484", late_write_twin);
SIMCUDA_TWIN(_Z10order_readPVKjjPj, "p4p", read_twin);
SIMCUDA_TWIN(_Z10order_spiny, "8", spin_twin);
SIMCUDA_TWIN(_Z11order_faultPjy, "q8", fault_twin);
#endif

void broken(const char *what, int line, int result) {
    std::fflush(stdout);
    if (result == 801) {
        std::fprintf(stderr, "line %d: %s: not supported here\n", line, what);
        _exit(UNSUPPORTED);
    }
    std::fprintf(stderr, "line %d: %s: %d\n", line, what, result);
    _exit(1);
}

void unsupported(const char *why) {
    std::fprintf(stderr, "%s\n", why);
    std::fflush(stderr);
    _exit(UNSUPPORTED);
}

void wrong(const char *format, ...) {
    va_list arguments;
    if (*first_wrong)
        return;
    va_start(arguments, format);
    std::vsnprintf(first_wrong, sizeof first_wrong, format, arguments);
    va_end(arguments);
}

void *driver_function(const char *name) {
    static void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = driver ? dlsym(driver, name) : nullptr;
    if (!found) {
        std::fprintf(stderr, "the driver has no %s\n", name);
        _exit(UNSUPPORTED);
    }
    return found;
}

void *scratch() {
    void *memory;
    MUST(cudaMalloc(&memory, SCRATCH));
    return memory;
}

void free_scratch(void *memory) { MUST(cudaFree(memory)); }

void late_write(cudaStream_t stream, unsigned *word, unsigned long long ns, bool triggers) {
    order_late_write<<<1, 1, 0, stream>>>(word, order.value, ns, triggers);
    MUST(cudaGetLastError());
}

void write_now(cudaStream_t stream, unsigned *word, unsigned value) {
    order_late_write<<<1, 1, 0, stream>>>(word, value, 0, 0);
    MUST(cudaGetLastError());
}

void read_now(cudaStream_t stream, const unsigned *word) {
    order_read<<<1, 1, 0, stream>>>(word, order.value, order.bad);
    MUST(cudaGetLastError());
}

void spin(cudaStream_t stream, unsigned long long ns) {
    order_spin<<<1, 1, 0, stream>>>(ns);
    MUST(cudaGetLastError());
}

unsigned look(const unsigned *word) {
    unsigned value;
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(&value, word, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

void two_streams() {
    MUST(cudaStreamCreateWithFlags(&order.first, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&order.second, cudaStreamNonBlocking));
}

void begin_round() {
    order.value++;
    MUST(cudaMemset(order.word, 0, 4));
    MUST(cudaMemset(order.other, 0, 4));
    MUST(cudaMemset(order.bad, 0, 4));
    MUST(cudaDeviceSynchronize());
}

void end_round(const char *what) {
    unsigned bad = look(order.bad);
    if (bad)
        wrong("round %u: %s: %u readers came too early", order.value, what, bad);
}

void set_up() {
    const char *ms = std::getenv("ORDER_MS");
    order.ns = (ms ? (unsigned long long)std::atoi(ms) : 30) * MS;
    MUST(cudaMalloc(&order.word, 4));
    MUST(cudaMalloc(&order.other, 4));
    MUST(cudaMalloc(&order.bad, 4));
    for (int i = 0; i < 40; i++)
        free_scratch(scratch());
    begin_round();
    late_write(nullptr, order.word, 0);
    read_now(nullptr, order.word);
    spin(nullptr, 0);
    end_round();
}

static void out_of_time(int number) {
    static const char text[] = "does not end\n";
    (void)number;
    _exit(write(STDERR_FILENO, text, sizeof text - 1) < 0 ? 4 : 3);
}

int run_case(const OrderCase *cases, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (std::strcmp(cases[i].name, name) == 0) {
            std::signal(SIGALRM, out_of_time);
            alarm(80);
            cases[i].run();
            if (*first_wrong)
                std::printf("wrong %s: %s\n", name, first_wrong);
            else
                std::printf("ok %s\n", name);
            std::fflush(stdout);
            return *first_wrong ? WRONG : 0;
        }
    return -1;
}

#ifndef ORDER_PRINTING
int main(int count, char **words) {
    const struct {
        const OrderCase *cases;
        size_t count;
    } all[] = {{device_cases, device_case_count}, {host_cases, host_case_count}, {context_cases, context_case_count}};
    for (auto &some : all) {
        int status = -1;
        if (count == 2 && std::strcmp(words[1], "--list") == 0)
            for (size_t i = 0; i < some.count; i++)
                std::puts(some.cases[i].name);
        else if (count == 2)
            status = run_case(some.cases, some.count, words[1]);
        if (status >= 0)
            return status;
    }
    return count == 2 && std::strcmp(words[1], "--list") == 0 ? 0 : 2;
}
#endif
