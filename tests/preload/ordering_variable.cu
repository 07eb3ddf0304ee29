/* Like ordering_host.cu. It is a file of its own because such a variable is in the program's image in every case. */
#include "ordering.h"

static __managed__ unsigned variable[WORDS];

ORDERING(managed_variable, NULL) {
    void *scratch = device_alloc(shared.scratch_size);
    launch_linger(shared.one);
    launch_make(shared.one, scratch, shared.salt);
    MUST(cudaMemcpyAsync(variable, scratch, BYTES, cudaMemcpyDeviceToDevice, shared.one));
    device_free(scratch);
    return !holds(variable, shared.salt);
}

int main(int count, char **argument) { return run_rounds("ordering_variable", count > 1 ? argument[1] : NULL); }
