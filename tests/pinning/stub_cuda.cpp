// SPDX-License-Identifier: Apache-2.0
// Stands in for libcuda, the driver.
#include "stub.hpp"

namespace {

/// A context is the address of its device's element.
constexpr int most_devices = 16;
int context_storage[most_devices];

/// The stack of pushed contexts: device + 1 each, as digits, the top one last.
stub::PerThread pushed;
constexpr int base = most_devices + 1;

int current() {
    if (pushed != 0) return pushed % base - 1;
    const auto given = stub::variable("RONDO_STUB_CURRENT");
    return given.empty() ? -1 : std::atoi(given.c_str());
}

int finish(const char* function, const std::string& arguments, int code) {
    stub::record(function, arguments, code, current());
    return code;
}

int begin(const char* function) {
    stub::block_first_call();
    return stub::wanted_failure(function);
}

}  // namespace

RONDO_STUB_EXPORT int cuInit(unsigned) {
    return finish("cuInit", "", begin("cuInit"));
}

RONDO_STUB_EXPORT int cuDeviceGetCount(int* count) {
    *count = stub::devices();
    return finish("cuDeviceGetCount", "", begin("cuDeviceGetCount"));
}

RONDO_STUB_EXPORT int cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return ordinal >= 0 && ordinal < stub::devices() ? 0 : 101;
}

RONDO_STUB_EXPORT int cuDeviceGetName(char* name, int size, int device) {
    std::snprintf(name, static_cast<std::size_t>(size), "Stub %d", device);
    return 0;
}

RONDO_STUB_EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
    *context = &context_storage[device];
    return finish("cuDevicePrimaryCtxRetain", "of=" + std::to_string(device),
                  begin("cuDevicePrimaryCtxRetain"));
}

RONDO_STUB_EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
    return finish("cuDevicePrimaryCtxRelease", "of=" + std::to_string(device), 0);
}

RONDO_STUB_EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
    *flags = 0;
    *active = stub::is_active(device) ? 1 : 0;
    return 0;
}

RONDO_STUB_EXPORT int cuCtxPushCurrent_v2(void* context) {
    const int code = begin("cuCtxPushCurrent");
    if (code == 0) pushed = pushed * base + (static_cast<int*>(context) - context_storage) + 1;
    return finish("cuCtxPushCurrent", "", code);
}

RONDO_STUB_EXPORT int cuCtxPopCurrent_v2(void** context) {
    if (pushed == 0) return finish("cuCtxPopCurrent", "", 201);
    *context = &context_storage[current()];
    pushed = pushed / base;
    return finish("cuCtxPopCurrent", "", 0);
}

RONDO_STUB_EXPORT int cuCtxGetCurrent(void** context) {
    *context = current() < 0 ? nullptr : &context_storage[current()];
    return finish("cuCtxGetCurrent", "", 0);
}

RONDO_STUB_EXPORT int cuCtxGetDevice(int* device) {
    *device = current();
    return *device < 0 ? 201 : 0;
}

RONDO_STUB_EXPORT int cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned flags) {
    int code = begin("cuMemHostRegister");
    if (code == 0) code = stub::registrations().add(memory, bytes);
    std::ostringstream arguments;
    arguments << "memory=" << memory << " bytes=" << bytes << " flags=" << flags
              << " resident=" << stub::resident(memory, bytes);
    return finish("cuMemHostRegister", arguments.str(), code);
}

RONDO_STUB_EXPORT int cuMemHostUnregister(void* memory) {
    int code = begin("cuMemHostUnregister");
    if (code == 0) code = stub::registrations().remove(memory);
    std::ostringstream arguments;
    arguments << "memory=" << memory << " mapped=" << stub::resident(memory, 1);
    return finish("cuMemHostUnregister", arguments.str(), code);
}

RONDO_STUB_EXPORT int cuPointerGetAttribute(void* value, int attribute,
                                            unsigned long long address) {
    int code = begin("cuPointerGetAttribute");
    if (code == 0 && (attribute != 2 || !stub::registrations().contains(address))) code = 1;
    *static_cast<unsigned*>(value) = code == 0 ? 1 : 0;
    return finish("cuPointerGetAttribute", "", code);
}

RONDO_STUB_EXPORT int cuGetErrorName(int code, const char** name) {
    switch (code) {
        case 1:
            *name = "CUDA_ERROR_INVALID_VALUE";
            return 0;
        case 2:
            *name = "CUDA_ERROR_OUT_OF_MEMORY";
            return 0;
        case 4:
            *name = "CUDA_ERROR_DEINITIALIZED";
            return 0;
        case 100:
            *name = "CUDA_ERROR_NO_DEVICE";
            return 0;
        case 712:
            *name = "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED";
            return 0;
        default:
            *name = nullptr;
            return 1;
    }
}

RONDO_STUB_EXPORT int cuDriverGetVersion(int* version) {
    *version = 12'080;
    return 0;
}
