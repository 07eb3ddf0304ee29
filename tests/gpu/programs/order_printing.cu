// Kernels print behind a free, and the host writes to the same file. Natively cudaFree waits for the kernel and prints
// what it left, so the lines are in order. Built with images in which a function's name cannot be seen: order_rows.py
// names the ways.
#include "order_rows.h"

#include <string>

const OrderCase device_cases[] = {{"", nullptr}}, host_cases[] = {{"", nullptr}}, context_cases[] = {{"", nullptr}};
const size_t device_case_count = 0, host_case_count = 0, context_case_count = 0;

__global__ void print_late(unsigned round, unsigned long long ns) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < ns);
    printf("device %u\n", round);
}

static void write_text(const std::string &text) {
    EXPECT(write(STDOUT_FILENO, text.data(), text.size()) == (ssize_t)text.size());
}

static void printing() {
    char path[] = "/tmp/order-printing-XXXXXX";
    int file = mkstemp(path), own = dup(STDOUT_FILENO);
    std::string wanted, seen(4096, '\0');
    EXPECT(file >= 0 && own >= 0 && unlink(path) == 0);
    set_up();
    EXPECT(dup2(file, STDOUT_FILENO) >= 0);
    setvbuf(stdout, nullptr, _IONBF, 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        begin_round();
        void *memory = scratch();
        print_late<<<1, 1>>>(round, order.ns);
        MUST(cudaGetLastError());
        free_scratch(memory);
        std::string line = "host " + std::to_string(round) + "\n";
        write_text(line);
        wanted += "device " + std::to_string(round) + "\n" + line;
    }
    MUST(cudaDeviceSynchronize());
    std::fflush(stdout);
    ssize_t size = pread(file, &seen[0], seen.size(), 0);
    EXPECT(size >= 0 && dup2(own, STDOUT_FILENO) >= 0);
    seen.resize((size_t)size);
    if (seen != wanted) {
        for (char &letter : seen)
            letter = letter == '\n' ? ',' : letter;
        wrong("%s", seen.c_str());
    }
}

int main() {
    const OrderCase row = {"printing", printing};
    return run_case(&row, 1, "printing");
}
