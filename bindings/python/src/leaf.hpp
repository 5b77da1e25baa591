// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dtypes.hpp"
#include "python.hpp"
#include <rondo/sample.hpp>
#include <rondo/spec.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rondo::python {

/// How many samples an array holds along its first dimension.
struct Stacked {
    npy_intp samples;
};

/// Thrown when an array is not what its place asks for. Whoever knows the whole tree tells.
struct LeafMismatch {
    std::string text;
};

/// One leaf of the example: what every array in its place has to look like.
class Leaf {
public:
    /// Raises TypeError if the array's elements cannot be sent.
    Leaf(std::string path, PyArrayObject* example);

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] ArraySpec spec() const;

    /// The array itself if its memory can be taken as it lies, else a C-ordered copy in this
    /// machine's byte order. What is no array but has `__array__` (numpy's scalars, arrays of
    /// others) is asked for one. With `stacked`, the array holds that many samples.
    /// Raises TypeError, naming the path, for anything else. Throws `LeafMismatch` for another
    /// dtype, or a shape that differs by more than dimensions of 1.
    [[nodiscard]] py::object take(py::object value, std::optional<Stacked> stacked) const;

    /// Memory of the ring as an array of `samples` samples that keeps `base` alive.
    [[nodiscard]] py::object view(std::span<const std::byte> memory, std::size_t samples,
                                  py::handle base, bool writable) const;

private:
    [[nodiscard]] bool has_shape(PyArrayObject* array, std::optional<Stacked> stacked) const;
    [[nodiscard]] std::string expected(std::optional<Stacked> stacked) const;
    [[noreturn]] void refuse_type(const py::object& value) const;
    void refuse_mask(const py::object& value) const;  ///< of a masked array only
    [[noreturn]] void refuse_array(PyArrayObject* array, std::optional<Stacked> stacked) const;

    std::string path_;
    ElementType element_;
    std::vector<npy_intp> shape_;
};

}  // namespace rondo::python
