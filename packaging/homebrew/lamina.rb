class Lamina < Formula
  desc "Large language models on the machine you have"
  homepage "@HOME@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    depends_on arch: :arm64
    url "@RELEASE@/@FILE:lamina-@VERSION@-aarch64-apple-darwin.tar.gz@"
    sha256 "@SHA256:lamina-@VERSION@-aarch64-apple-darwin.tar.gz@"
  end

  on_linux do
    on_intel do
      url "@RELEASE@/@FILE:lamina-@VERSION@-x86_64-unknown-linux-musl.tar.gz@"
      sha256 "@SHA256:lamina-@VERSION@-x86_64-unknown-linux-musl.tar.gz@"
    end
    on_arm do
      url "@RELEASE@/@FILE:lamina-@VERSION@-aarch64-unknown-linux-musl.tar.gz@"
      sha256 "@SHA256:lamina-@VERSION@-aarch64-unknown-linux-musl.tar.gz@"
    end
  end

  def install
    libexec.install "lamina", "models"
    bin.install_symlink libexec/"lamina"
    bash_completion.install "complete/lamina.bash" => "lamina"
    zsh_completion.install "complete/lamina.zsh" => "_lamina"
    fish_completion.install "complete/lamina.fish"
    man1.install "man/lamina.1"
  end

  service do
    run [opt_bin/"lamina", "serve", "--config", etc/"lamina/serve.toml"]
    keep_alive crashed: true
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/lamina --version")
    assert_match "Once", shell_output("#{bin}/lamina run 'Once upon a time' -n 8 --temperature 0")
  end
end
