#include "cli/served/served_chain.h"

#include <algorithm>
#include <memory>

#include "base/programs.h"
#include "base/scratch_folder.h"
#include "base/status.h"
#include "cli/child_server.h"
#include "cli/served/demo_gallery.h"
#include "client/client.h"
#include "models/encoders/encoder.h"
#include "trainer/evaluate.h"

namespace lightcone::cli {
namespace {

constexpr char kChainCollection[] = "chain";

struct Link {
  uint32_t generation = 0;
  Manifest manifest;
  std::vector<float> z;  // vectors of the test images
};

absl::StatusOr<std::vector<Link>> OpenLinks(const ServedChain& chain, const Dataset& dataset) {
  std::vector<Link> links;
  std::vector<std::unique_ptr<Encoder>> encoders;
  for (const std::string& folder : chain.models) {
    LC_ASSIGN_OR_RETURN(std::unique_ptr<Encoder> encoder, Encoder::LoadFolder(folder));
    const Manifest& manifest = encoder->manifest();
    if (!links.empty() &&
        (manifest.parent_crc32c != links.back().manifest.encoder_crc32c || manifest.through_adapter)) {
      return InvalidField(StrCat("--chain[", links.size(), "]"), folder,
                          StrCat("a model that was trained against '", links.back().manifest.name, "'"));
    }
    links.push_back({0, manifest, {}});
    encoders.push_back(std::move(encoder));
  }
  for (size_t i = 0; i < links.size(); ++i) {
    LC_ASSIGN_OR_RETURN(links[i].z, EmbedSplit(*encoders[i], dataset.test));
    if (chain.stop != nullptr && chain.stop->load()) return absl::CancelledError("interrupted");
  }
  return links;
}

absl::StatusOr<std::vector<ChainCell>> MeasureLinks(client::Client& client, const ServedChain& chain,
                                                    const Dataset& dataset, std::vector<Link>& links) {
  LC_RETURN_IF_ERROR(CreateGallery(client, kChainCollection, links[0].manifest.metric, links[0].manifest.curvature));
  for (size_t i = 0; i < links.size(); ++i) {
    const uint32_t parent = i == 0 ? 0 : links[i - 1].generation;
    LC_ASSIGN_OR_RETURN(links[i].generation,
                        RegisterModel(client, kChainCollection, chain.models[i], {.parent = parent}));
  }
  const int64_t n = dataset.test.size();
  const std::vector<int64_t> queries = ChooseQueries(n, chain.queries_max > 0 ? chain.queries_max : n, chain.seed);
  std::vector<ChainCell> cells;
  for (size_t gallery = 0; gallery < links.size(); ++gallery) {
    const Link& old = links[gallery];
    LC_RETURN_IF_ERROR(ActivateModel(client, kChainCollection, old.generation));
    LC_RETURN_IF_ERROR(UpsertVectors(client, kChainCollection, old.generation, old.z, old.manifest.dimension, dataset));
    for (size_t query = gallery; query < links.size(); ++query) {
      const GalleryQueries what = {.collection = kChainCollection,
                                   .generation = links[query].generation,
                                   .evaluate_generations = {},
                                   .z = links[query].z,
                                   .dimension = links[query].manifest.dimension,
                                   .queries = queries,
                                   .stop = chain.stop};
      LC_ASSIGN_OR_RETURN(const DemoRow row, MeasureThroughSearch(client, what, dataset.test.labels));
      cells.push_back({static_cast<int>(query), static_cast<int>(gallery), row.cmc1, row.cmc5, row.map});
    }
  }
  return cells;
}

}  // namespace

absl::StatusOr<std::vector<ChainCell>> MeasureServedChain(const ServedChain& chain, const Dataset& dataset) {
  if (chain.models.size() < 2) {
    return InvalidField("--chain", StrCat(chain.models.size(), " models"), "two or more, oldest first");
  }
  if (dataset.protocol.has_value() || dataset.test.size() < 2) {
    return InvalidField("--data", dataset.name,
                        "a set of two or more test images without a protocol of its own for queries and gallery");
  }
  LC_ASSIGN_OR_RETURN(std::vector<Link> links, OpenLinks(chain, dataset));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<ScratchFolder> scratch, ScratchFolder::Make("chain"));
  const std::string binary = chain.binary.empty() ? ProgramBeside("lightcone") : chain.binary;
  const std::vector<std::string> extra = {"--limits-k-max", StrCat(std::max<int64_t>(10'000, dataset.test.size()))};
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<ChildServer> server,
                      ChildServer::Start(binary, scratch->path() + "/data", extra));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<client::Client> client,
                      client::Client::Connect({.address = server->address()}));
  LC_RETURN_IF_ERROR(client->WaitUntilServing(absl::Seconds(30)));
  return MeasureLinks(*client, chain, dataset, links);
}

}  // namespace lightcone::cli
