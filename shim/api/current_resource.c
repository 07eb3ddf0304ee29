/* The current resource of each device: what code uses that is given none (gpumem_resource.h). */
#include <pthread.h>

#include "shim/base/base.h"
#include "shim/base/error.h"
#include "shim/gpumem_resource.h"
#ifdef GM_HAVE_CUDA
#include "shim/driver/program_driver.h"
#endif

enum { DEVICES = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpumem_resource *current[DEVICES]; /* each is one more owner's */

static gm_status find_device(int *device) {
#ifdef GM_HAVE_CUDA
    struct gm_context context;
    gm_status status = gm_program_context(&context);
    if (status)
        return status;
    *device = context.device;
    return *device < DEVICES ? GM_OK : gm_fail(GM_NOT_SUPPORTED, "device %d: at most %d devices", *device, DEVICES);
#else
    return gm_fail(GM_NOT_INITIALIZED, "this build has no CUDA");
#endif
}

static gm_status find_current(struct gpumem_resource **resource, bool shares) {
    int device = 0;
    gm_status status = find_device(&device);
    if (status)
        return status;
    pthread_mutex_lock(&lock);
    if (!current[device])
        status = gpumem_resource_create("native", &current[device]);
    if (!status && shares)
        status = gpumem_resource_share(current[device]);
    if (!status)
        *resource = current[device];
    pthread_mutex_unlock(&lock);
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_resource_current(struct gpumem_resource **resource) {
    GM_NEED(resource);
    return (enum gpumem_status)find_current(resource, false);
}

GM_PUBLIC enum gpumem_status gpumem_resource_share_current(struct gpumem_resource **resource) {
    GM_NEED(resource);
    return (enum gpumem_status)find_current(resource, true);
}

GM_PUBLIC enum gpumem_status gpumem_resource_set_current(struct gpumem_resource *resource) {
    int device = 0;
    gm_status status = find_device(&device);
    if (!status && resource)
        status = gpumem_resource_share(resource);
    if (status)
        return status;
    pthread_mutex_lock(&lock);
    struct gpumem_resource *former = current[device];
    current[device] = resource;
    pthread_mutex_unlock(&lock);
    gpumem_resource_abandon(former);
    return GPUMEM_OK;
}
