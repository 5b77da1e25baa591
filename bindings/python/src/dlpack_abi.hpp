// SPDX-License-Identifier: Apache-2.0
// The binary interface of DLPack 1.1, as far as memory of the host needs it:
// https://dmlc.github.io/dlpack/latest/c_api.html
#pragma once

#include <cstdint>

namespace rondo::python::dlpack {

enum class DeviceType : std::int32_t { cpu = 1, cuda_host = 3 };

struct Device {
    DeviceType type;
    std::int32_t id;
};

struct DataType {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
};

struct Tensor {
    void* data;
    Device device;
    std::int32_t ndim;
    DataType dtype;
    std::int64_t* shape;
    std::int64_t* strides;  // in elements
    std::uint64_t byte_offset;
};

struct ManagedTensor {
    Tensor tensor;
    void* manager;
    void (*deleter)(ManagedTensor* self);
};

struct Version {
    std::uint32_t major;
    std::uint32_t minor;
};

constexpr std::uint64_t flag_read_only = 1;

struct VersionedManagedTensor {
    Version version;
    void* manager;
    void (*deleter)(VersionedManagedTensor* self);
    std::uint64_t flags;
    Tensor tensor;
};

static_assert(sizeof(Tensor) == 48 && sizeof(ManagedTensor) == 64 &&
                  sizeof(VersionedManagedTensor) == 80,
              "these layouts are the interface");

}  // namespace rondo::python::dlpack
