/* The list of driver functions that gpumem itself calls, one row each. driver.h makes the table gm_drv of them. */
#ifndef GM_DRIVER_SYMBOLS_H
#define GM_DRIVER_SYMBOLS_H

/* X(field, exact symbol, name and version for cuGetProcAddress, optional: absent in some supported driver) */
#define GM_DRIVER_SYMBOLS(X)                                                                                          \
    X(ctx_get_current, cuCtxGetCurrent, "cuCtxGetCurrent", 4000, 0)                                                   \
    X(ctx_push, cuCtxPushCurrent_v2, "cuCtxPushCurrent", 4000, 0)                                                     \
    X(ctx_pop, cuCtxPopCurrent_v2, "cuCtxPopCurrent", 4000, 0)                                                        \
    X(ctx_get_device, cuCtxGetDevice, "cuCtxGetDevice", 2000, 0)                                                      \
    X(ctx_get_id, cuCtxGetId, "cuCtxGetId", 12000, 1)                                                                 \
    X(ctx_from_green, cuCtxFromGreenCtx, "cuCtxFromGreenCtx", 12040, 1)                                               \
    X(primary_get_state, cuDevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", 7000, 0)                           \
    X(primary_retain, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0)                                  \
    X(primary_release, cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, 1)                           \
    X(ctx_synchronize, cuCtxSynchronize, "cuCtxSynchronize", 2000, 0)                                                 \
    X(ctx_record_event, cuCtxRecordEvent, "cuCtxRecordEvent", 12050, 1)                                               \
    X(ctx_wait_event, cuCtxWaitEvent, "cuCtxWaitEvent", 12050, 1)                                                     \
    X(driver_get_version, cuDriverGetVersion, "cuDriverGetVersion", 2020, 0)                                          \
    X(device_get_count, cuDeviceGetCount, "cuDeviceGetCount", 2000, 0)                                                \
    X(device_get_name, cuDeviceGetName, "cuDeviceGetName", 2000, 0)                                                   \
    X(device_get_uuid, cuDeviceGetUuid_v2, "cuDeviceGetUuid", 11040, 1)                                               \
    X(device_get_attribute, cuDeviceGetAttribute, "cuDeviceGetAttribute", 2000, 0)                                    \
    X(device_get_pci_bus_id, cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", 4010, 1)                                     \
    X(device_total_mem, cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, 0)                                             \
    X(device_can_access_peer, cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", 4000, 0)                                \
    X(mem_get_info, cuMemGetInfo_v2, "cuMemGetInfo", 3020, 0)                                                         \
    X(mem_alloc, cuMemAlloc_v2, "cuMemAlloc", 3020, 0)                                                                \
    X(mem_alloc_pitch, cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, 0)                                                \
    X(mem_alloc_managed, cuMemAllocManaged, "cuMemAllocManaged", 6000, 0)                                             \
    X(mem_free, cuMemFree_v2, "cuMemFree", 3020, 0)                                                                   \
    X(mem_alloc_async, cuMemAllocAsync, "cuMemAllocAsync", 11020, 1)                                                  \
    X(mem_alloc_async_ptsz, cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, 1)                                        \
    X(mem_free_async, cuMemFreeAsync, "cuMemFreeAsync", 11020, 1)                                                     \
    X(mem_free_async_ptsz, cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, 1)                                           \
    X(mem_alloc_from_pool_async, cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, 1)                        \
    X(mem_alloc_from_pool_async_ptsz, cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, 1)              \
    X(mem_pool_create, cuMemPoolCreate, "cuMemPoolCreate", 11020, 1)                                                  \
    X(mem_pool_destroy, cuMemPoolDestroy, "cuMemPoolDestroy", 11020, 1)                                               \
    X(mem_pool_set_attribute, cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, 1)                               \
    X(mem_pool_get_attribute, cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 11020, 1)                               \
    X(mem_pool_set_access, cuMemPoolSetAccess, "cuMemPoolSetAccess", 11020, 1)                                        \
    X(mem_pool_trim_to, cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, 1)                                                 \
    X(device_get_default_mem_pool, cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", 11020, 1)                  \
    X(mem_advise_first, cuMemAdvise, "cuMemAdvise", 8000, 1)                                                          \
    X(mem_advise, cuMemAdvise_v2, "cuMemAdvise", 12020, 1)                                                            \
    X(mem_prefetch, cuMemPrefetchAsync, "cuMemPrefetchAsync", 8000, 1)                                                \
    X(mem_prefetch_ptsz, cuMemPrefetchAsync_ptsz, "cuMemPrefetchAsync", 8000, 1)                                      \
    X(mem_prefetch_v2, cuMemPrefetchAsync_v2, "cuMemPrefetchAsync", 12020, 1)                                         \
    X(mem_prefetch_v2_ptsz, cuMemPrefetchAsync_v2_ptsz, "cuMemPrefetchAsync", 12020, 1)                               \
    X(mem_address_reserve, cuMemAddressReserve, "cuMemAddressReserve", 10020, 1)                                      \
    X(mem_address_free, cuMemAddressFree, "cuMemAddressFree", 10020, 1)                                               \
    X(mem_create, cuMemCreate, "cuMemCreate", 10020, 1)                                                               \
    X(mem_release, cuMemRelease, "cuMemRelease", 10020, 1)                                                            \
    X(mem_map, cuMemMap, "cuMemMap", 10020, 1)                                                                        \
    X(mem_unmap, cuMemUnmap, "cuMemUnmap", 10020, 1)                                                                  \
    X(mem_set_access, cuMemSetAccess, "cuMemSetAccess", 10020, 1)                                                     \
    X(mem_get_allocation_granularity, cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", 10020, 1)       \
    X(mem_host_alloc, cuMemHostAlloc, "cuMemHostAlloc", 2020, 0)                                                      \
    X(mem_free_host, cuMemFreeHost, "cuMemFreeHost", 2000, 0)                                                         \
    X(mem_export, cuMemExportToShareableHandle, "cuMemExportToShareableHandle", 10020, 1)                             \
    X(memcpy_async, cuMemcpyAsync, "cuMemcpyAsync", 4000, 0)                                                          \
    X(memset_d8_async, cuMemsetD8Async, "cuMemsetD8Async", 3020, 0)                                                   \
    X(memset_d8_async_ptsz, cuMemsetD8Async_ptsz, "cuMemsetD8Async", 7000, 0)                                         \
    X(memset_d16_async, cuMemsetD16Async, "cuMemsetD16Async", 3020, 0)                                                \
    X(memset_d32_async, cuMemsetD32Async, "cuMemsetD32Async", 3020, 0)                                                \
    X(stream_create, cuStreamCreate, "cuStreamCreate", 2000, 0)                                                       \
    X(stream_destroy, cuStreamDestroy_v2, "cuStreamDestroy", 4000, 0)                                                 \
    X(stream_query, cuStreamQuery, "cuStreamQuery", 2000, 0)                                                          \
    X(stream_synchronize, cuStreamSynchronize, "cuStreamSynchronize", 2000, 0)                                        \
    X(stream_wait_event, cuStreamWaitEvent, "cuStreamWaitEvent", 3020, 0)                                             \
    X(stream_get_ctx, cuStreamGetCtx, "cuStreamGetCtx", 9020, 1)                                                      \
    X(stream_get_flags, cuStreamGetFlags, "cuStreamGetFlags", 7000, 1)                                                \
    X(stream_is_capturing, cuStreamIsCapturing, "cuStreamIsCapturing", 10000, 0)                                      \
    X(stream_is_capturing_ptsz, cuStreamIsCapturing_ptsz, "cuStreamIsCapturing", 10000, 0)                            \
    X(thread_exchange_capture_mode, cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", 10010, 0) \
    X(event_create, cuEventCreate, "cuEventCreate", 2000, 0)                                                          \
    X(event_destroy, cuEventDestroy_v2, "cuEventDestroy", 4000, 0)                                                    \
    X(event_record, cuEventRecord, "cuEventRecord", 2000, 0)                                                          \
    X(event_record_ptsz, cuEventRecord_ptsz, "cuEventRecord", 7000, 0)                                                \
    X(event_query, cuEventQuery, "cuEventQuery", 2000, 0)                                                             \
    X(event_synchronize, cuEventSynchronize, "cuEventSynchronize", 2000, 0)                                           \
    X(pointer_get_attribute, cuPointerGetAttribute, "cuPointerGetAttribute", 4000, 0)                                 \
    X(pointer_get_attributes, cuPointerGetAttributes, "cuPointerGetAttributes", 7000, 0)                              \
    X(get_error_name, cuGetErrorName, "cuGetErrorName", 6000, 0)

#endif
