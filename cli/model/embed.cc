// lightcone embed: the images of a data set as a model sees them, into files that `import` and `adapt` take.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/npy.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/json/message_json.h"
#include "cli/model/commands.h"
#include "models/encoders/encoder.h"
#include "trainer/data/dataset.h"
#include "trainer/evaluate.h"

namespace lightcone::cli {
namespace {

struct EmbedFlags {
  std::string model, data = "glyphs", split = "test", out, labels_out;
  uint64_t seed = 1;
};

template <typename T>
std::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

absl::Status RunEmbed(Context& context, const EmbedFlags& flags) {
  if (flags.split != "test" && flags.split != "train") {
    return InvalidField("--split", StrCat("'", flags.split, "'"), "test, train");
  }
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Encoder> encoder, Encoder::LoadFolder(flags.model));
  LC_ASSIGN_OR_RETURN(const Dataset dataset, OpenDataset(flags.data, flags.seed));
  const ImageSet& images = flags.split == "test" ? dataset.test : dataset.train;
  LC_ASSIGN_OR_RETURN(const std::vector<float> z, EmbedSplit(*encoder, images));
  const int64_t rows = images.size();
  LC_RETURN_IF_ERROR(
      WriteFileAtomically(flags.out, EncodeNpy(NpyType::kFloat32, {rows, encoder->dimension()}, BytesOf(z))));
  if (!flags.labels_out.empty()) {
    LC_RETURN_IF_ERROR(
        WriteFileAtomically(flags.labels_out, EncodeNpy(NpyType::kInt32, {rows}, BytesOf(images.labels))));
  }
  if (context.json) {
    context.PrintJson({{"file", flags.out}, {"rows", rows}, {"dimension", encoder->dimension()}});
  } else {
    context.Print(StrCat(flags.out, ": ", rows, " embeddings before the clip, of dimension ", encoder->dimension(),
                         ", by '", encoder->manifest().name, "'\n"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddEmbed(CLI::App& root, Context& context) {
  auto flags = std::make_shared<EmbedFlags>();
  CLI::App* app = AddHeldCommand(root, "embed");
  app->add_option("--model", flags->model, "Folder of the model")->required();
  app->add_option("--data", flags->data, "Data set, as in train")->capture_default_str();
  app->add_option("--split", flags->split, "Split of the data set: test or train")->capture_default_str();
  app->add_option("--seed", flags->seed, "Seed of drawing and splits: the training's seed gives its split")
      ->capture_default_str();
  app->add_option("--out", flags->out, "File to write the embeddings to, float32 (images, dimension)")->required();
  app->add_option("--labels-out", flags->labels_out, "File to write the images' class numbers to, int32");
  app->callback([&context, flags] { context.Finish(RunEmbed(context, *flags)); });
}

}  // namespace lightcone::cli
