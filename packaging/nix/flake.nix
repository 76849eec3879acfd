{
  description = "Large language models on the machine you have";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { nixpkgs, ... }:
    let
      archives = {
        x86_64-linux = {
          url = "@RELEASE@/@FILE:lamina-@VERSION@-x86_64-unknown-linux-musl.tar.gz@";
          sha256 = "@SHA256:lamina-@VERSION@-x86_64-unknown-linux-musl.tar.gz@";
        };
        aarch64-linux = {
          url = "@RELEASE@/@FILE:lamina-@VERSION@-aarch64-unknown-linux-musl.tar.gz@";
          sha256 = "@SHA256:lamina-@VERSION@-aarch64-unknown-linux-musl.tar.gz@";
        };
        aarch64-darwin = {
          url = "@RELEASE@/@FILE:lamina-@VERSION@-aarch64-apple-darwin.tar.gz@";
          sha256 = "@SHA256:lamina-@VERSION@-aarch64-apple-darwin.tar.gz@";
        };
      };
      package = system: archive:
        nixpkgs.legacyPackages.${system}.stdenvNoCC.mkDerivation {
          pname = "lamina";
          version = "@VERSION@";
          src = nixpkgs.legacyPackages.${system}.fetchurl archive;
          nativeBuildInputs = [ nixpkgs.legacyPackages.${system}.installShellFiles ];
          installPhase = ''
            mkdir -p $out/libexec $out/bin
            cp -r lamina models $out/libexec/
            ln -s $out/libexec/lamina $out/bin/lamina
            installManPage man/lamina.1
            installShellCompletion --bash complete/lamina.bash --fish complete/lamina.fish --zsh complete/lamina.zsh
          '';
        };
    in {
      packages = builtins.mapAttrs (system: archive: { default = package system archive; }) archives;
    };
}
