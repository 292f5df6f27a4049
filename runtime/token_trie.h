// The bytes of a vocabulary's tokens as a tree, so that beginnings which tokens share are looked at once.
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace llmc {

class TokenTrie {
 public:
  // In the order of a walk that goes down first: a node's children are the nodes behind it to its end.
  struct Node {
    uint32_t end;    // the first node that isn't below this one
    uint32_t ids;    // tokens that end here are ids()[ids .. next node's ids)
    uint32_t depth;  // bytes up to here, at least 1
    uint8_t byte;
  };
  // bytes: of a token, "" to leave it out. Memory: 16 bytes a node, 4 a token.
  TokenTrie(int32_t tokens, const std::function<std::string_view(int32_t id)>& bytes);

  const std::vector<Node>& nodes() const { return nodes_; }  // and one behind the last, for its ids
  const std::vector<int32_t>& ids() const { return ids_; }
  uint32_t depth() const { return depth_; }  // bytes of the longest token

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> ids_;
  uint32_t depth_ = 0;
};

}  // namespace llmc
