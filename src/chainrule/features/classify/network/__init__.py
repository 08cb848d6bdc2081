"""Networks that label texts, trees and graphs, fine-tuned or trained from scratch."""
