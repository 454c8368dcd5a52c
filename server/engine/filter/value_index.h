// Which ids have which value: a tree in the order of the values. A leaf has the ids of one frequent value, or about a
// thousand ids of rarer values. For numbers, an inner node has the set of all ids below it. So the ids of a value, or
// of a range, are the union of a few sets and at most two parts of leaves: a few bitmaps give half a million ids. Texts
// are mostly asked for one by one, so only their leaves have sets. Threads: none of its own; const methods are safe
// together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "index/rows/id_set.h"

namespace lightcone::server {

// Parts of a union of ids.
struct IdPieces {
  std::vector<const IdSet*> sets;
  std::vector<uint64_t> ids;

  IdSet Union() const {
    IdSet all = sets.size() == 1 ? *sets[0] : IdSet::Union(sets);
    all.AddMany(ids);
    return all;
  }
};

// T: ordered by <, copyable. An id may have several values.
template <typename T>
class ValueIndex {
 public:
  // Adding a pair again changes nothing.
  void Add(const T& value, uint64_t id) {
    NodePtr upper = AddBelow(root_.get(), value, id);
    if (upper == nullptr) return;
    auto root = std::make_unique<Node>();
    root->children.reserve(2);
    root->children.push_back(std::move(root_));
    root->children.push_back(std::move(upper));
    root_ = std::move(root);
    Sum(root_.get());
  }

  // Removing a pair that is not there changes nothing.
  void Remove(const T& value, uint64_t id) {
    RemoveBelow(root_.get(), value, id);
    while (root_->children.size() == 1 && !root_->children[0]->leaf()) root_ = NodePtr(std::move(root_->children[0]));
  }

  // The ids of values that are neither below nor above. `below` is true for the least values up to some point, `above`
  // for the greatest from some point on. The pieces point into this index.
  template <typename Below, typename Above>
  void Collect(const Below& below, const Above& above, IdPieces* out) const {
    Visit(
        below, above, [out](const IdSet& ids) { out->sets.push_back(&ids); },
        [out](auto begin, auto end) {
          for (; begin != end; ++begin) out->ids.push_back(begin->second);
        });
  }

  // The least and the greatest value that Collect finds; nullopt where it finds none.
  template <typename Below, typename Above>
  std::optional<std::pair<T, T>> Ends(const Below& below, const Above& above) const {
    const Node* least = root_.get();
    while (!least->leaf()) {
      const auto first = std::partition_point(least->children.begin(), least->children.end(),
                                              [&](const NodePtr& child) { return below(GreatestOf(*child)); });
      if (first == least->children.end()) return std::nullopt;
      least = first->get();
    }
    const Node* greatest = root_.get();
    while (!greatest->leaf()) {
      const auto behind = std::partition_point(greatest->children.begin(), greatest->children.end(),
                                               [&](const NodePtr& child) { return !above(child->least); });
      if (behind == greatest->children.begin()) return std::nullopt;
      greatest = std::prev(behind)->get();
    }
    if (least == root_.get()) return std::nullopt;  // empty
    const auto first = std::partition_point(least->entries.begin(), least->entries.end(),
                                            [&](const Entry& entry) { return below(entry.first); });
    const auto behind = std::partition_point(greatest->entries.begin(), greatest->entries.end(),
                                             [&](const Entry& entry) { return !above(entry.first); });
    std::pair<T, T> ends{least->single() ? least->least : first->first,
                         greatest->single() ? greatest->least : std::prev(behind)->first};
    if (ends.second < ends.first) return std::nullopt;
    return ends;
  }

  // How many ids Collect finds. An id with several such values counts once for each. Only for numbers is counting
  // cheaper than collecting.
  template <typename Below, typename Above>
  uint64_t Count(const Below& below, const Above& above) const {
    uint64_t count = 0;
    Visit(
        below, above, [&count](const IdSet& ids) { count += ids.Count(); },
        [&count](auto begin, auto end) { count += static_cast<uint64_t>(end - begin); });
    return count;
  }

  // Calls visit(value, id) for the pairs in the order of the values, or from the greatest down, and the ids of a value
  // in ascending order, until it says false. skip(value): the value comes before the first of the walk.
  // is_first(value): of this value, the walk has only ids above `id`.
  template <typename Skip, typename IsFirst, typename Visit>
  void Walk(bool descending, const Skip& skip, const IsFirst& is_first, uint64_t id, const Visit& visit) const {
    WalkBelow(*root_, descending, skip, is_first, id, visit);
  }

  // Approximate memory. Texts too long for a string's own buffer do not count.
  size_t bytes() const { return BytesOf(*root_); }

 private:
  static constexpr size_t kEntriesMax = 1'024;
  static constexpr size_t kSingleMin = 64;  // ids of a value that gets a leaf of its own
  static constexpr size_t kChildrenMax = 8;
  static constexpr bool kSums = !std::is_same_v<T, std::string>;  // Inner nodes have sets.

  struct Node;
  using NodePtr = std::unique_ptr<Node>;
  using Entry = std::pair<T, uint64_t>;

  // A leaf has no children. Only a root may be empty.
  struct Node {
    T least{};  // least value of the node
    IdSet ids;
    std::vector<Entry> entries;     // a leaf's, ascending; none: every id has the value `least`
    std::vector<NodePtr> children;  // ascending, all leaves or none

    bool leaf() const { return children.empty(); }
    bool single() const { return leaf() && entries.empty(); }
  };

  static const T& GreatestOf(const Node& node) {
    const Node* at = &node;
    while (!at->leaf()) at = at->children.back().get();
    return at->single() ? at->least : at->entries.back().first;
  }

  // The child that has the value or would have it.
  static size_t ChildFor(const Node& node, const T& value) {
    const auto behind = std::upper_bound(node.children.begin(), node.children.end(), value,
                                         [](const T& v, const NodePtr& child) { return v < child->least; });
    return behind == node.children.begin() ? 0 : static_cast<size_t>(behind - node.children.begin()) - 1;
  }

  // Adds below an inner node or an empty root; returns the half that no longer has room there, or nullptr.
  static NodePtr AddBelow(Node* node, const T& value, uint64_t id) {
    auto& children = node->children;
    if (children.empty()) {
      children.push_back(NewLeaf(value, id));
    } else {
      size_t at = ChildFor(*node, value);
      NodePtr upper;
      if (!children[at]->leaf()) {
        upper = AddBelow(children[at].get(), value, id);
      } else {
        if (children[at]->single() && children[at]->least != value) {
          // A leaf of one value takes no other: the pair goes to the next leaf if that one takes several values.
          if (children[at]->least < value) ++at;
          if (at == children.size() || children[at]->single()) children.insert(Place(children, at), NewLeaf(value, id));
        }
        upper = AddToLeaf(children[at].get(), value, id);
      }
      if (upper != nullptr) children.insert(Place(children, at + 1), std::move(upper));
    }
    node->least = children.front()->least;
    if (kSums) node->ids.Add(id);
    if (children.size() <= kChildrenMax) return nullptr;
    auto upper = std::make_unique<Node>();
    const auto middle = Place(children, children.size() / 2);
    upper->children.assign(std::make_move_iterator(middle), std::make_move_iterator(children.end()));
    children.erase(middle, children.end());
    Sum(node);
    Sum(upper.get());
    return upper;
  }

  static auto Place(std::vector<NodePtr>& children, size_t at) { return children.begin() + static_cast<ptrdiff_t>(at); }

  static NodePtr NewLeaf(const T& value, uint64_t id) {
    auto leaf = std::make_unique<Node>();
    leaf->least = value;
    leaf->entries.emplace_back(value, id);
    leaf->ids.Add(id);
    return leaf;
  }

  static NodePtr AddToLeaf(Node* leaf, const T& value, uint64_t id) {
    leaf->ids.Add(id);
    if (leaf->single()) return nullptr;
    const Entry entry(value, id);
    const auto place = std::lower_bound(leaf->entries.begin(), leaf->entries.end(), entry);
    if (place != leaf->entries.end() && *place == entry) return nullptr;
    leaf->entries.insert(place, entry);
    leaf->least = leaf->entries.front().first;
    return leaf->entries.size() > kEntriesMax ? Split(leaf) : nullptr;
  }

  // Cuts between two values near the middle and returns the upper half. A leaf of one frequent value drops its entries.
  static NodePtr Split(Node* leaf) {
    auto& entries = leaf->entries;
    const auto less = [](const Entry& entry, const T& value) { return entry.first < value; };
    auto cut = std::lower_bound(entries.begin(), entries.end(), entries[entries.size() / 2].first, less);
    if (cut == entries.begin()) {
      cut = std::upper_bound(entries.begin(), entries.end(), entries.front().first,
                             [](const T& value, const Entry& entry) { return value < entry.first; });
    }
    NodePtr upper;
    if (cut != entries.end()) {
      upper = std::make_unique<Node>();
      upper->entries.assign(std::make_move_iterator(cut), std::make_move_iterator(entries.end()));
      entries.erase(cut, entries.end());
      Settle(upper.get());
    }
    Settle(leaf);
    return upper;
  }

  static void Settle(Node* leaf) {
    leaf->least = leaf->entries.front().first;
    std::vector<uint64_t> ids;
    ids.reserve(leaf->entries.size());
    for (const auto& [value, id] : leaf->entries) ids.push_back(id);
    leaf->ids = IdSet();
    leaf->ids.AddMany(ids);
    if (ids.size() >= kSingleMin && !(leaf->least < leaf->entries.back().first)) {
      leaf->entries = {};
    } else {
      leaf->entries.shrink_to_fit();
    }
  }

  static void Sum(Node* node) {
    node->least = node->children.front()->least;
    if (!kSums) return;
    std::vector<const IdSet*> sets;
    for (const NodePtr& child : node->children) sets.push_back(&child->ids);
    node->ids = IdSet::Union(sets);
  }

  // Returns whether the pair was there.
  static bool RemoveBelow(Node* node, const T& value, uint64_t id) {
    auto& children = node->children;
    if (children.empty()) return false;
    const size_t at = ChildFor(*node, value);
    Node* const child = children[at].get();
    const bool leaf = child->leaf();
    if (!(leaf ? RemoveFromLeaf(child, value, id) : RemoveBelow(child, value, id))) return false;
    if (leaf ? child->ids.empty() : child->children.empty()) children.erase(Place(children, at));
    if (!children.empty()) node->least = children.front()->least;
    if (kSums) node->ids.Remove(id);
    return true;
  }

  static bool RemoveFromLeaf(Node* leaf, const T& value, uint64_t id) {
    if (leaf->single()) return leaf->least == value && leaf->ids.Remove(id);
    const auto place = std::lower_bound(leaf->entries.begin(), leaf->entries.end(), Entry(value, id));
    if (place == leaf->entries.end() || *place != Entry(value, id)) return false;
    leaf->entries.erase(place);
    leaf->ids.Remove(id);
    if (!leaf->entries.empty()) leaf->least = leaf->entries.front().first;
    return true;
  }

  // VisitBelow for the whole tree.
  template <typename Below, typename Above, typename OnSet, typename OnEntries>
  void Visit(const Below& below, const Above& above, const OnSet& on_set, const OnEntries& on_entries) const {
    if (root_->children.empty()) return;
    if (kSums && !below(root_->least) && !above(GreatestOf(*root_))) {
      on_set(root_->ids);
    } else {
      VisitBelow(*root_, below, above, on_set, on_entries);
    }
  }

  // Calls on_set(ids) for nodes whose ids all match, and on_entries(begin, end) for parts of leaves.
  template <typename Below, typename Above, typename OnSet, typename OnEntries>
  static void VisitBelow(const Node& node, const Below& below, const Above& above, const OnSet& on_set,
                         const OnEntries& on_entries) {
    const auto first = std::partition_point(node.children.begin(), node.children.end(),
                                            [&](const NodePtr& child) { return below(GreatestOf(*child)); });
    for (auto at = first; at != node.children.end() && !above((*at)->least); ++at) {
      const Node& child = **at;
      const bool whole = child.single() || (!below(child.least) && !above(GreatestOf(child)));
      if (whole && (kSums || child.leaf())) {
        on_set(child.ids);
      } else if (!child.leaf()) {
        VisitBelow(child, below, above, on_set, on_entries);
      } else {
        const auto begin = std::partition_point(child.entries.begin(), child.entries.end(),
                                                [&](const Entry& entry) { return below(entry.first); });
        on_entries(begin, std::partition_point(begin, child.entries.end(),
                                               [&](const Entry& entry) { return !above(entry.first); }));
      }
    }
  }

  // Returns whether the walk goes on.
  template <typename Skip, typename IsFirst, typename Visit>
  static bool WalkBelow(const Node& node, bool descending, const Skip& skip, const IsFirst& is_first, uint64_t id,
                        const Visit& visit) {
    for (size_t i = 0; i < node.children.size(); ++i) {
      const Node& child = *node.children[descending ? node.children.size() - 1 - i : i];
      if (skip(descending ? child.least : GreatestOf(child))) continue;
      const bool on = child.leaf() ? WalkLeaf(child, descending, skip, is_first, id, visit)
                                   : WalkBelow(child, descending, skip, is_first, id, visit);
      if (!on) return false;
    }
    return true;
  }

  template <typename Skip, typename IsFirst, typename Visit>
  static bool WalkLeaf(const Node& leaf, bool descending, const Skip& skip, const IsFirst& is_first, uint64_t id,
                       const Visit& visit) {
    if (leaf.single()) {
      const bool first = is_first(leaf.least);
      if (first && id == UINT64_MAX) return true;
      bool on = true;
      leaf.ids.ForEachIn(first ? id + 1 : 0, UINT64_MAX, [&](std::span<const uint64_t> ids) {
        on = std::all_of(ids.begin(), ids.end(), [&](uint64_t one) { return visit(leaf.least, one); });
        return on;
      });
      return on;
    }
    const auto& entries = leaf.entries;
    for (size_t done = 0; done < entries.size();) {  // One value after another.
      size_t begin = done, end = entries.size() - done;
      if (descending) {
        for (begin = end - 1; begin > 0 && entries[begin - 1].first == entries[end - 1].first;) --begin;
      } else {
        for (end = begin + 1; end < entries.size() && entries[end].first == entries[begin].first;) ++end;
      }
      done += end - begin;
      if (skip(entries[begin].first)) continue;
      const bool first = is_first(entries[begin].first);
      for (size_t i = begin; i < end; ++i) {
        if (first && entries[i].second <= id) continue;
        if (!visit(entries[i].first, entries[i].second)) return false;
      }
    }
    return true;
  }

  static size_t BytesOf(const Node& node) {
    size_t bytes = sizeof(Node) + node.ids.bytes() + node.entries.capacity() * sizeof(Entry) +
                   node.children.capacity() * sizeof(NodePtr);
    for (const NodePtr& child : node.children) bytes += BytesOf(*child);
    return bytes;
  }

  NodePtr root_ = std::make_unique<Node>();  // an inner node even when it is empty
};

}  // namespace lightcone::server
