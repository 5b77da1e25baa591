// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "process.hpp"
#include "python.hpp"
#include <rondo/batch.hpp>

#include <string>
#include <utility>

namespace rondo::python {

/// A batch's hold on its buffer of the ring, as Python sees it: the object at the end of the base
/// chain of every array of the batch. When the last array, view, or other alias of that memory is
/// gone, so is the lease, and the buffer goes back to the producers.
///
/// Any thread may be the last holder, before or after the server is gone. In a forked child the
/// memory stays readable and is never given back.
class Lease {
public:
    Lease(Batch batch, bool pinned) : batch_{std::move(batch)}, pinned_{pinned} {}

    [[nodiscard]] Batch& batch() const { return batch_.get("batch"); }
    [[nodiscard]] std::string repr() const;

    /// Whether the memory is page-locked by CUDA.
    [[nodiscard]] bool is_pinned() const noexcept { return pinned_; }

private:
    OfProcess<Batch> batch_;
    bool pinned_;
};

/// Gives a batch's buffer back at once; `leaves` are those of its tree. From then on the arrays of
/// the tree are empty, with a first dimension of 0, so that nobody reads what comes next. Does
/// nothing for arrays that are no lease's, e.g. copies, and the second time.
/// Raises BufferError if anything else still refers to the memory: it would see it change.
void release(const py::list& leaves);

void add_lease(py::module_& module);

}  // namespace rondo::python
