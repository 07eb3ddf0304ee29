/* spgemm.h in C++: its structs are types by their names alone, which no function hides. */
#include "spgemm/spgemm.h"

static_assert(sizeof(gpumem_spgemm_options) && sizeof(gpumem_spgemm_csr) && sizeof(gpumem_spgemm_needs) &&
                  sizeof(gpumem_spgemm_output) && sizeof(gpumem_spgemm_result) && sizeof(gpumem_spgemm_rows) &&
                  sizeof(gpumem_spgemm_host_output) && sizeof(gpumem_spgemm_host_result) &&
                  sizeof(gpumem_spgemm_group_options) && sizeof(gpumem_spgemm_part),
              "structs");

int main() {
    gpumem_spgemm *multiplier = nullptr;
    gpumem_spgemm_matrix *matrix = nullptr;
    gpumem_spgemm_structure *structure = nullptr;
    gpumem_spgemm_group *group = nullptr;
    return multiplier || matrix || structure || group;
}
