// Each thread's first statement of CUDA is one of gpumem: the primary context of the first device becomes current, as
// with the CUDA runtime. On a thread without a context memory is freed, too.
#include <cstdio>
#include <thread>

#include "gpumem.hpp"
#include "gpumem_residency.hpp"
#include "gpumem_workspace.hpp"

static bool is_right = true;

template <typename Call> void first(Call call) {
    std::thread([&] {
        try {
            call();
        } catch (const gpumem::error &error) {
            std::printf("%s\n", error.text());
            is_right = false;
        }
    }).join();
}

int main() {
    gpumem::async_device_resource async;
    gpumem::vmm_resource growing;
    gpumem::workspace workspace;
    gpumem_vector *vector = nullptr; // of thrust::device_vector<T, thrust::virtual_allocator<T>>
    void *memory = nullptr, *grown = nullptr;
    first([&] { gpumem::check(gpumem_vector_create(nullptr, sizeof(int), nullptr, &vector)); });
    first([&] { gpumem::check(gpumem_vector_resize(vector, 5, nullptr)); });
    first([&] { gpumem::check(gpumem_vector_destroy(vector)); });
    first([&] { memory = async.allocate(100); });
    first([&] { async.deallocate(memory, 100); });
    first([&] { grown = growing.allocate(100); });
    first([&] { growing.grow(grown, 100, 200); });
    first([&] { growing.deallocate(grown, 200); });
    first([&] { (void)gpumem::current_resource(); });
    first([&] { gpumem::residency residency(gpumem::residency::with_budget(1 << 20)); });
    first([&] { is_right = is_right && !gpumem::make_workspace(workspace); });
    first([&] { workspace.reset(); });
    gpumem_resource_info info = {};
    info.struct_size = sizeof info;
    gpumem::check(gpumem_resource_get_info(async.handle(), &info));
    std::printf(is_right && !info.live_count && !info.mismatches ? "ok first\n" : "wrong\n");
}
