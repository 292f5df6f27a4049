// SHA-256 by libcrypto.
#include "backends/sha256.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include <openssl/evp.h>

namespace llmc {
namespace {

class EvpSha256 final : public Sha256 {
 public:
  EvpSha256() : context_(EVP_MD_CTX_new()) {
    if (context_ == nullptr || EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
  }
  ~EvpSha256() override { EVP_MD_CTX_free(context_); }
  void Update(const void* bytes, size_t size) override { EVP_DigestUpdate(context_, bytes, size); }
  Sha256Digest Finish() override {
    Sha256Digest digest;
    EVP_DigestFinal_ex(context_, digest.data(), nullptr);
    return digest;
  }

 private:
  EVP_MD_CTX* context_;
};

}  // namespace

std::unique_ptr<Sha256> MakeSha256() { return std::make_unique<EvpSha256>(); }

Sha256Digest Sha256OfFile(const std::string& path) {
  const auto fail = [&] { return PlanError(path + ": cannot be read: " + std::strerror(errno)); };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) throw fail();
  EvpSha256 hash;
  std::vector<char> buffer(1 << 20);
  while (std::feof(file.get()) == 0) {
    const size_t n = std::fread(buffer.data(), 1, buffer.size(), file.get());
    if (std::ferror(file.get()) != 0) throw fail();
    hash.Update(buffer.data(), n);
  }
  return hash.Finish();
}

}  // namespace llmc
