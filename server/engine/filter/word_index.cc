#include "server/engine/filter/word_index.h"

#include "base/dcheck.h"
#include "server/engine/filter/text_match.h"

namespace lightcone::server {
void WordIndex::Add(uint64_t id, const TextWords& words) {
  if (words.several_texts) several_.Add(id);
  if (words.long_words) long_words_.Add(id);
  for (const std::string& word : words.words) words_.Add(word, id);
}

void WordIndex::Remove(uint64_t id, const TextWords& words) {
  several_.Remove(id);
  long_words_.Remove(id);
  for (const std::string& word : words.words) words_.Remove(word, id);
}

std::pair<IdSet, bool> WordIndex::IdsOf(const std::string& word) const {
  if (word.size() > kIndexedWordBytesMax) return {long_words_, false};
  IdPieces ids;
  words_.Collect([&](const std::string& other) { return other < word; },
                 [&](const std::string& other) { return other > word; }, &ids);
  return {ids.Union(), true};
}

IdBounds WordIndex::Evaluate(const FilterNode& leaf) const {
  LC_DCHECK(leaf.kind == FilterNode::Kind::kText && leaf.match != FilterNode::TextMatch::kPrefix);
  LC_DCHECK(!leaf.words.empty());
  IdSet sure, maybe;  // ids that meet the condition; those, and ids that can meet it
  if (leaf.match == FilterNode::TextMatch::kAnyWord) {
    for (const std::string& word : leaf.words) {
      const auto [ids, known] = IdsOf(word);
      maybe |= ids;
      if (known) sure |= ids;
    }
  } else {
    bool known_all = leaf.match == FilterNode::TextMatch::kWords || leaf.words.size() == 1;
    for (size_t i = 0; i < leaf.words.size() && (i == 0 || !maybe.empty()); ++i) {
      auto [ids, known] = IdsOf(leaf.words[i]);
      known_all = known_all && known;
      i == 0 ? static_cast<void>(maybe = std::move(ids)) : static_cast<void>(maybe &= ids);
    }
    if (known_all) sure = maybe;
    if (leaf.words.size() > 1) sure -= several_;
  }
  const bool exact = sure.Count() == maybe.Count();
  IdBounds bounds{{std::move(sure), false, {}}, std::nullopt};
  if (!exact) bounds.may = IdFilter{std::move(maybe), false, {}};
  return bounds;
}

}  // namespace lightcone::server
