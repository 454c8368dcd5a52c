#include "server/engine/filter/word_index.h"

#include "base/dcheck.h"
#include "server/engine/filter/text_match.h"

namespace lightcone::server {
namespace {

constexpr size_t kWordBytesMax = 64;  // longer ones are keys, not words, and would fill the memory

}  // namespace

void WordIndex::Add(uint64_t id, std::span<const std::string_view> texts) {
  if (texts.size() > 1) several_.Add(id);
  for (const std::string_view text : texts) {
    for (const std::string& word : WordsOf(text)) {
      word.size() > kWordBytesMax ? static_cast<void>(long_words_.Add(id)) : words_.Add(word, id);
    }
  }
}

void WordIndex::Remove(uint64_t id, std::span<const std::string_view> texts) {
  several_.Remove(id);
  long_words_.Remove(id);
  for (const std::string_view text : texts) {
    for (const std::string& word : WordsOf(text)) words_.Remove(word, id);
  }
}

std::pair<IdSet, bool> WordIndex::IdsOf(const std::string& word) const {
  if (word.size() > kWordBytesMax) return {long_words_, false};
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
    for (size_t i = 0; i < leaf.words.size(); ++i) {
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
