// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "python.hpp"

#include <cstdint>
#include <optional>
#include <utility>

namespace rondo::python {

/// An array of a batch for consumers of DLPack (torch, JAX, CuPy, numpy): its memory, without a
/// copy. A tensor made of it holds the array, and with it the batch.
class DLPackArray {
public:
    /// `pinned`: the memory is page-locked by CUDA, and announced as such.
    DLPackArray(py::object array, bool pinned) : array_{std::move(array)}, pinned_{pinned} {}

    /// (device type, device id).
    [[nodiscard]] std::pair<int, int> device() const;

    /// A capsule. Versioned, and flagged read-only where the array is, if the consumer understands
    /// version 1; else one without flags, for which the consumer must not write.
    /// Raises BufferError for another device, or elements that DLPack has no name for.
    [[nodiscard]] py::object capsule(const std::optional<std::pair<int, int>>& max_version,
                                     const std::optional<std::pair<int, int>>& device,
                                     std::optional<bool> copy) const;

private:
    py::object array_;
    bool pinned_;
};

void add_dlpack(py::module_& module);

}  // namespace rondo::python
