// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "leaf.hpp"
#include "python.hpp"
#include <rondo/batch.hpp>
#include <rondo/sample.hpp>
#include <rondo/spec.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rondo::python {

/// The arrays of a tree, checked, in the order of the spec. Keeps their memory alive.
/// Destroyed with the GIL held.
class Arrays {
public:
    [[nodiscard]] std::span<const ArrayBytes> bytes() const noexcept { return bytes_; }

    /// Samples in them: 1, unless they are stacked.
    [[nodiscard]] std::size_t count() const noexcept { return count_; }

private:
    friend class Tree;
    std::vector<py::object> owners_;
    std::vector<ArrayBytes> bytes_;
    std::size_t count_ = 1;
};

/// The structure of the example: takes trees apart into arrays, and puts arrays together.
///
/// Plain dicts, lists and tuples are walked here; whatever else optree knows (named tuples,
/// dataclasses, registered types) goes through optree. Immutable after construction; used with the
/// GIL held.
class Tree {
public:
    /// `treespec` and `paths` are those of the example's leaves, in optree's order. Raises
    /// TypeError for a leaf that is no array, ValueError where the leaves make no spec.
    Tree(py::object treespec, const std::vector<std::string>& paths, const py::list& leaves);

    [[nodiscard]] const SampleSpec& spec() const noexcept { return *spec_; }

    /// Raises TypeError or ValueError, and names the leaf, if the tree does not fit the example.
    [[nodiscard]] Arrays take(const py::object& tree) const;

    /// The same for a tree of stacked samples, `[n, *shape]` in each leaf.
    [[nodiscard]] Arrays take_stacked(const py::object& tree) const;

    /// The arrays of a batch in the example's structure; each keeps `lease` alive.
    [[nodiscard]] py::object of_batch(const Batch& batch, py::handle lease, bool writable) const;

private:
    struct Node {
        enum class Kind : std::uint8_t { leaf, dict, list, tuple };
        Kind kind;
        std::size_t leaf = 0;
        std::vector<py::object> keys{};  // of a dict, in the example's order
        std::vector<Node> children{};
    };

    static std::optional<Node> node_of(const py::object& numbered);
    static bool walk(const Node& node, PyObject* tree, std::vector<py::object>& leaves);
    static py::object build(const Node& node, std::span<const py::object> leaves);

    [[nodiscard]] std::vector<py::object> leaves_of(const py::object& tree) const;
    void take_leaves(Arrays& arrays, std::optional<Stacked> stacked) const;
    [[nodiscard]] std::string payload_difference(const Arrays& arrays) const;

    py::object treespec_;
    py::list paths_;
    std::vector<Leaf> leaves_;
    std::optional<SampleSpec> spec_;
    std::optional<Node> plain_;  // nothing: only optree can walk it
};

void add_tree(py::module_& module);

}  // namespace rondo::python
