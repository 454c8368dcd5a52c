// Which ids have a word in a text, for conditions on the words of texts (text_match.h).
// Threads: none of its own; const methods are safe together.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "index/rows/id_set.h"
#include "server/engine/filter/filter.h"
#include "server/engine/filter/id_bounds.h"
#include "server/engine/filter/payload_field.h"
#include "server/engine/filter/value_index.h"

namespace lightcone::server {

class WordIndex {
 public:
  // Those of all texts of an id. Adding them again, and removing what is not there, changes nothing.
  void Add(uint64_t id, const TextWords& words);
  void Remove(uint64_t id, const TextWords& words);

  // The ids with a text that a kText leaf asks for. Texts are read where words of an id may stand in several texts, or
  // in another order, and for words of more than 64 bytes. REQUIRES: the leaf is of Filter::Make, and asks for words.
  IdBounds Evaluate(const FilterNode& leaf) const;

  size_t bytes() const { return words_.bytes() + several_.bytes() + long_words_.bytes(); }

 private:
  // The ids with the word, and whether each has it.
  std::pair<IdSet, bool> IdsOf(const std::string& word) const;

  ValueIndex<std::string> words_;
  IdSet several_;     // ids with several texts
  IdSet long_words_;  // ids with a word that is too long for the index
};

}  // namespace lightcone::server
