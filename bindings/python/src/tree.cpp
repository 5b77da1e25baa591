// SPDX-License-Identifier: Apache-2.0
#include "tree.hpp"

#include "errors.hpp"

#include <limits>
#include <numeric>
#include <utility>

namespace rondo::python {
namespace {

ArrayBytes bytes_of(PyArrayObject* array) {
    return {static_cast<const std::byte*>(PyArray_DATA(array)),
            static_cast<std::size_t>(PyArray_NBYTES(array))};
}

}  // namespace

Tree::Tree(py::object treespec, const std::vector<std::string>& paths, const py::list& leaves)
    : treespec_{std::move(treespec)}, paths_{py::cast(paths)} {
    std::vector<ArraySpec> arrays;
    for (std::size_t i = 0; i < paths.size(); ++i) {
        const py::object leaf = leaves[i];
        if (!PyArray_Check(leaf.ptr())) {
            raise(PyExc_TypeError, "All leaves must be numpy arrays; leaf '" + paths[i] +
                                       "' is a " +
                                       std::string{py::str(py::type::of(leaf).attr("__name__"))});
        }
        leaves_.emplace_back(paths[i], as_array(leaf));
        arrays.push_back(leaves_.back().spec());
    }
    // A machine bounds the payload soon enough; the default is for what comes from a peer.
    auto spec = SampleSpec::create(
        std::move(arrays), {.max_payload_bytes = std::numeric_limits<std::uint64_t>::max() / 2});
    if (!spec) raise(spec.error());
    spec_ = std::move(*spec);

    py::list numbers;
    for (std::size_t i = 0; i < leaves_.size(); ++i) numbers.append(i);
    plain_ = node_of(treespec_.attr("unflatten")(numbers));
}

// `numbered` is the example with the index of each leaf in its place.
std::optional<Tree::Node> Tree::node_of(const py::object& numbered) {
    if (PyLong_CheckExact(numbered.ptr())) {
        return Node{Node::Kind::leaf, numbered.cast<std::size_t>()};
    }
    Node node{};
    py::list children;
    if (PyDict_CheckExact(numbered.ptr())) {
        node.kind = Node::Kind::dict;
        for (const auto& [key, child] : py::reinterpret_borrow<py::dict>(numbered)) {
            node.keys.push_back(py::reinterpret_borrow<py::object>(key));
            children.append(child);
        }
    } else if (PyList_CheckExact(numbered.ptr()) || PyTuple_CheckExact(numbered.ptr())) {
        node.kind = PyList_CheckExact(numbered.ptr()) ? Node::Kind::list : Node::Kind::tuple;
        children = py::list{numbered};
    } else {
        return std::nullopt;
    }
    for (const py::handle child : children) {
        auto below = node_of(py::reinterpret_borrow<py::object>(child));
        if (!below) return std::nullopt;
        node.children.push_back(std::move(*below));
    }
    return node;
}

// False: the tree is not built like the example. Nothing is checked about the leaves.
bool Tree::walk(const Node& node, PyObject* tree, std::vector<py::object>& leaves) {
    const std::size_t size = node.children.size();
    switch (node.kind) {
        case Node::Kind::leaf:
            leaves[node.leaf] = py::reinterpret_borrow<py::object>(tree);
            return true;
        case Node::Kind::dict:
            if (!PyDict_CheckExact(tree) || PyDict_GET_SIZE(tree) != std::ssize(node.keys)) {
                return false;
            }
            for (std::size_t i = 0; i < size; ++i) {
                PyObject* const child = PyDict_GetItemWithError(tree, node.keys[i].ptr());
                if (child == nullptr && PyErr_Occurred() != nullptr) throw py::error_already_set{};
                if (child == nullptr || !walk(node.children[i], child, leaves)) return false;
            }
            return true;
        case Node::Kind::list:
            if (!PyList_CheckExact(tree) || PyList_GET_SIZE(tree) != std::ssize(node.children)) {
                return false;
            }
            for (std::size_t i = 0; i < size; ++i) {
                PyObject* const child = PyList_GET_ITEM(tree, static_cast<py::ssize_t>(i));
                if (!walk(node.children[i], child, leaves)) return false;
            }
            return true;
        case Node::Kind::tuple:
            if (!PyTuple_CheckExact(tree) || PyTuple_GET_SIZE(tree) != std::ssize(node.children)) {
                return false;
            }
            for (std::size_t i = 0; i < size; ++i) {
                PyObject* const child = PyTuple_GET_ITEM(tree, static_cast<py::ssize_t>(i));
                if (!walk(node.children[i], child, leaves)) return false;
            }
            return true;
    }
    return false;
}

std::vector<py::object> Tree::leaves_of(const py::object& tree) const {
    std::vector<py::object> leaves(leaves_.size());
    if (plain_ && walk(*plain_, tree.ptr(), leaves)) return leaves;
    // Another kind of tree, or a wrong one: optree tells.
    const py::object leaves_like = py::module_::import("rondo._tree").attr("leaves_like");
    std::size_t i = 0;
    for (const py::handle leaf : leaves_like(treespec_, paths_, spec_->payload_bytes(), tree)) {
        leaves.at(i++) = py::reinterpret_borrow<py::object>(leaf);
    }
    return leaves;
}

Arrays Tree::take(const py::object& tree) const {
    Arrays arrays;
    arrays.owners_ = leaves_of(tree);
    take_leaves(arrays, {});
    return arrays;
}

Arrays Tree::take_stacked(const py::object& tree) const {
    Arrays arrays;
    arrays.owners_ = leaves_of(tree);
    const py::object& first = arrays.owners_.front();
    if (!PyArray_Check(first.ptr()) || PyArray_NDIM(as_array(first)) == 0) {
        raise(PyExc_ValueError, "leaf '" + leaves_.front().path() +
                                    "' must be an array of stacked samples, [n, *shape]");
    }
    const npy_intp samples = PyArray_DIM(as_array(first), 0);
    arrays.count_ = static_cast<std::size_t>(samples);
    take_leaves(arrays, Stacked{samples});
    return arrays;
}

void Tree::take_leaves(Arrays& arrays, std::optional<Stacked> stacked) const {
    arrays.bytes_.reserve(leaves_.size());
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
        py::object& owner = arrays.owners_[i];
        try {
            owner = leaves_[i].take(owner, stacked);
        } catch (const LeafMismatch& mismatch) {
            raise(PyExc_ValueError, payload_difference(arrays) + mismatch.text);
        }
        arrays.bytes_.push_back(bytes_of(as_array(owner)));
    }
}

// What id-echo says of it, where it would say anything.
std::string Tree::payload_difference(const Arrays& arrays) const {
    std::uint64_t got = 0;
    for (const py::object& array : arrays.owners_) {
        if (PyArray_Check(array.ptr())) got += bytes_of(as_array(array)).size();
    }
    const std::uint64_t expected = spec_->payload_bytes() * arrays.count_;
    if (got == expected) return {};
    return "Payload size " + std::to_string(got) + " != expected " + std::to_string(expected) +
           ": ";
}

py::object Tree::of_batch(const Batch& batch, py::handle lease, bool writable) const {
    std::vector<py::object> arrays;
    arrays.reserve(leaves_.size());
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
        arrays.push_back(leaves_[i].view(batch.array<std::byte>(i), batch.size(), lease, writable));
    }
    return plain_ ? build(*plain_, arrays) : treespec_.attr("unflatten")(arrays);
}

py::object Tree::build(const Node& node, std::span<const py::object> leaves) {
    const auto size = static_cast<py::ssize_t>(node.children.size());
    switch (node.kind) {
        case Node::Kind::leaf:
            return leaves[node.leaf];
        case Node::Kind::dict: {
            py::dict dict;
            for (std::size_t i = 0; i < node.children.size(); ++i) {
                const py::object child = build(node.children[i], leaves);
                if (PyDict_SetItem(dict.ptr(), node.keys[i].ptr(), child.ptr()) != 0) {
                    throw py::error_already_set{};
                }
            }
            return dict;
        }
        case Node::Kind::list: {
            auto list = owned(PyList_New(size));
            for (py::ssize_t i = 0; i < size; ++i) {
                auto child = build(node.children[static_cast<std::size_t>(i)], leaves);
                PyList_SET_ITEM(list.ptr(), i, child.release().ptr());
            }
            return list;
        }
        case Node::Kind::tuple: {
            auto tuple = owned(PyTuple_New(size));
            for (py::ssize_t i = 0; i < size; ++i) {
                auto child = build(node.children[static_cast<std::size_t>(i)], leaves);
                PyTuple_SET_ITEM(tuple.ptr(), i, child.release().ptr());
            }
            return tuple;
        }
    }
    return py::none();
}

void add_tree(py::module_& module) {
    py::class_<Tree, std::shared_ptr<Tree>>(module, "Tree",
                                            "The structure of an example tree of numpy arrays.")
        .def(py::init<py::object, const std::vector<std::string>&, const py::list&>(),
             py::arg("treespec"), py::arg("paths"), py::arg("leaves"))
        .def_property_readonly("spec", [](const Tree& tree) { return tree.spec().text(); });
}

}  // namespace rondo::python
