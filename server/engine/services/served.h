// A collection in service, and what each use case keeps beside it.
// Threads: the members are set once. Each of them is safe from any thread.
#pragma once

#include <memory>

#include "server/engine/collection/collection.h"
#include "server/engine/collection/row_samples.h"

namespace lightcone::server {

class Backfill;
class CanaryTally;
class CollectionWriter;
class LiveFigures;
class ModelWatch;
class SearchTimes;

// The types of other folders are only declared, so that those folders may include this header.
// Members end in reverse order, the collection last. The last holder of a dropped collection removes its data.
struct Served {
  std::shared_ptr<Collection> collection;
  std::shared_ptr<CollectionWriter> writer;
  std::shared_ptr<Backfill> backfill;
  std::shared_ptr<LiveFigures> live;
  std::shared_ptr<SearchTimes> search_times;
  std::shared_ptr<CanaryTally> canary;
  std::shared_ptr<RowSamples> samples;
  std::shared_ptr<ModelWatch> model_watch;
};
using ServedPtr = std::shared_ptr<const Served>;

}  // namespace lightcone::server
