/* Adaptor "prefetch": starts to move each new managed block to its device, so that the first kernel does not fault page
 * by page. The program may use the block at once. */
#include "shim/resource/adaptor.h"
#include "shim/resource/managed_advice.h"
#include "shim/resource/rows.h"

static gm_status prefetch_alloc(struct gm_resource *self, const struct gm_request *request,
                                const struct gm_decision *decision, struct gm_block *block) {
    gm_status status = gm_adaptor_alloc(self, request, decision, block);
    if (!status)
        gm_managed_advice_advise(request, GM_ADVICE_PREFETCH, block);
    return status;
}

const struct gm_resource_ops gm_resource_prefetch = {
    .name = "prefetch",
    .summary = "starts to move each new managed block to its device",
    .properties = ~(uint32_t)GM_PROP_GROWABLE,
    .needs = GM_PROP_HOST_ACCESSIBLE | GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_OVERSUBSCRIBABLE | GM_PROP_READY_ANYWHERE,
    .breaks = "",
    .adaptor = true,
    .alloc = prefetch_alloc,
    .free = gm_adaptor_free,
};
