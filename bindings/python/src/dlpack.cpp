// SPDX-License-Identifier: Apache-2.0
#include "dlpack.hpp"

#include "dlpack_abi.hpp"
#include "dtypes.hpp"
#include "errors.hpp"
#include "held.hpp"

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::python {
namespace {

struct NamedCode {
    std::string_view name;
    std::uint8_t code;
};
// Of ml_dtypes, whose kinds tell nothing.
constexpr std::array named_codes{
    NamedCode{"bfloat16", 4},        NamedCode{"float8_e3m4", 7},
    NamedCode{"float8_e4m3", 8},     NamedCode{"float8_e4m3b11fnuz", 9},
    NamedCode{"float8_e4m3fn", 10},  NamedCode{"float8_e4m3fnuz", 11},
    NamedCode{"float8_e5m2", 12},    NamedCode{"float8_e5m2fnuz", 13},
    NamedCode{"float8_e8m0fnu", 14},
};

std::optional<std::uint8_t> code_of(PyArray_Descr* descr) {
    if (PyTypeNum_ISUSERDEF(descr->type_num)) {
        const std::string name = name_of(reinterpret_cast<PyObject*>(descr));
        for (const NamedCode& named : named_codes) {
            if (named.name == name) return named.code;
        }
        return std::nullopt;
    }
    const auto size = PyDataType_ELSIZE(descr);
    switch (descr->kind) {
        case 'i':
            return 0;
        case 'u':
            return 1;
        case 'f':
            return size <= 8 ? std::optional<std::uint8_t>{2} : std::nullopt;
        case 'c':
            return size <= 16 ? std::optional<std::uint8_t>{5} : std::nullopt;
        case 'b':
            return 6;
        default:
            return std::nullopt;
    }
}

/// What a capsule owns: the array, and the shape that its tensor points to.
template <typename Managed>
struct Export {
    std::shared_ptr<py::object> array;  // dies with the GIL held, whoever frees the tensor
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
    Managed managed{};
};

template <typename Managed>
constexpr const char* capsule_name = "dltensor";
template <>
constexpr const char* capsule_name<dlpack::VersionedManagedTensor> = "dltensor_versioned";

// Called for a capsule that nobody took; who takes one renames it and calls the deleter later.
template <typename Managed>
void free_unused(PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, capsule_name<Managed>) == 0) return;
    auto* const managed =
        static_cast<Managed*>(PyCapsule_GetPointer(capsule, capsule_name<Managed>));
    managed->deleter(managed);
}

template <typename Managed>
std::unique_ptr<Export<Managed>> make_export(const py::object& object, dlpack::Device device) {
    PyArrayObject* const array = as_array(object);
    PyArray_Descr* const descr = PyArray_DESCR(array);
    const auto code = code_of(descr);
    if (!code || !PyArray_ISNBO(descr->byteorder)) {
        raise(PyExc_BufferError,
              "DLPack has no name for " + name_of(reinterpret_cast<PyObject*>(descr)));
    }
    auto exported = std::make_unique<Export<Managed>>();
    exported->array = held(object);
    const auto item_size = PyDataType_ELSIZE(descr);
    for (int i = 0; i < PyArray_NDIM(array); ++i) {
        exported->shape.push_back(PyArray_DIM(array, i));
        exported->strides.push_back(PyArray_STRIDE(array, i) / item_size);
    }
    exported->managed.manager = exported.get();
    exported->managed.deleter = [](Managed* self) {
        delete static_cast<Export<Managed>*>(self->manager);
    };
    exported->managed.tensor = {
        .data = PyArray_DATA(array),
        .device = device,
        .ndim = PyArray_NDIM(array),
        .dtype = {*code, static_cast<std::uint8_t>(item_size * 8), 1},
        .shape = exported->shape.data(),
        .strides = exported->strides.data(),
        .byte_offset = 0,
    };
    return exported;
}

template <typename Managed>
py::object to_capsule(std::unique_ptr<Export<Managed>> exported) {
    auto capsule =
        owned(PyCapsule_New(&exported->managed, capsule_name<Managed>, free_unused<Managed>));
    (void)exported.release();  // the capsule's now
    return capsule;
}

}  // namespace

std::pair<int, int> DLPackArray::device() const {
    const auto type = pinned_ ? dlpack::DeviceType::cuda_host : dlpack::DeviceType::cpu;
    return {static_cast<int>(type), 0};
}

py::object DLPackArray::capsule(const std::optional<std::pair<int, int>>& max_version,
                                const std::optional<std::pair<int, int>>& device,
                                std::optional<bool> copy) const {
    const std::pair<int, int> cpu{static_cast<int>(dlpack::DeviceType::cpu), 0};
    // Page-locked memory is the host's all the same.
    if (device && *device != this->device() && *device != cpu) {
        raise(PyExc_BufferError, "the batch lies in the host's memory: ask for that device");
    }
    if (copy.value_or(false)) {
        const DLPackArray own{array_.attr("copy")(), false};
        return own.capsule(max_version, std::nullopt, std::nullopt);
    }
    const auto type = device.value_or(this->device()).first;
    const dlpack::Device where{static_cast<dlpack::DeviceType>(type), 0};
    if (!max_version || max_version->first < 1) {
        return to_capsule(make_export<dlpack::ManagedTensor>(array_, where));
    }
    auto exported = make_export<dlpack::VersionedManagedTensor>(array_, where);
    exported->managed.version = {1, 1};
    exported->managed.flags = PyArray_ISWRITEABLE(as_array(array_)) ? 0 : dlpack::flag_read_only;
    return to_capsule(std::move(exported));
}

void add_dlpack(py::module_& module) {
    using Pair = std::optional<std::pair<int, int>>;
    py::class_<DLPackArray>(module, "DLPackArray", "An array of a batch, for DLPack.")
        .def(py::init<py::object, bool>(), py::arg("array"), py::arg("pinned"))
        .def("__dlpack_device__", &DLPackArray::device)
        .def(
            "__dlpack__",
            // The memory of the host needs no stream.
            [](const DLPackArray& array, const py::object& /*stream*/, const Pair& max_version,
               const Pair& device,
               std::optional<bool> copy) { return array.capsule(max_version, device, copy); },
            py::kw_only(), py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
            py::arg("dl_device") = py::none(), py::arg("copy") = py::none());
}

}  // namespace rondo::python
