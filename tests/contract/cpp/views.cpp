// The program of the CUDA <memory_resource> extension proposal (its usage example: foo, goo, boo, loo) on gpumem's
// types. Its two commented-out calls must not compile: -DREFUSED=1 and -DREFUSED=2 put them back.
#include <cstdlib>
#include <iostream>

#include "device.hpp"
#include "gpumem.hpp"

using gpumem::memory_kind;
using gpumem::property;
using gpumem::resource_view;

#ifndef REFUSED
#define REFUSED 0
#endif

struct managed_resource : gpumem::memory_resource<memory_kind::managed> {
  private:
    void *do_allocate(std::size_t bytes, std::size_t) override {
        std::cout << "Managed" << std::endl;
        return std::malloc(bytes);
    }
    void do_deallocate(void *memory, std::size_t, std::size_t) override { std::free(memory); }
};

struct device_resource : gpumem::memory_resource<memory_kind::device> {
  private:
    void *do_allocate(std::size_t bytes, std::size_t) override {
        std::cout << "Device" << std::endl;
        return std::malloc(bytes);
    }
    void do_deallocate(void *memory, std::size_t, std::size_t) override { std::free(memory); }
};

template <typename Resource> void my_job(const Resource &resource) { resource.deallocate(resource.allocate(64), 64); }

void foo(resource_view<property::host_accessible | property::host_storage> view) { my_job(view); }
void goo(resource_view<property::device_accessible | property::oversubscribable> view) { my_job(view); }
void boo(resource_view<property::device_accessible> view) { my_job(view); }
void loo(resource_view<property::device_accessible | property::oversubscribable> view) { boo(view); }

int main() {
    begin_cuda();
    managed_resource mr;
    device_resource dr;
    my_job(mr);
    foo(&mr);
    goo(&mr);
    loo(&mr);
    boo(&dr);
#if REFUSED == 1
    foo(&dr);
#elif REFUSED == 2
    goo(&dr);
#endif
    return 0;
}
