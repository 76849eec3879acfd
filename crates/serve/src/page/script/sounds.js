"use strict";
// Sounds of conversations: like pictures they are named by hashes, and kept beside them.
const Sounds = (() => {
  // What servers take unless they say otherwise.
  let limits = { bytes: 64 * 2 ** 20, seconds: 1800 };
  // Browsers know no type of some of these.
  const ENDINGS = /\.(wav|flac|mp3|ogg|oga)$/i;

  const isSound = (url) => typeof url === "string" && /^data:audio\/[a-z0-9+.-]+;base64,/.test(url);

  // The sounds among what was pasted or dropped.
  function among(transfer) {
    return [...(transfer?.files ?? [])].filter((file) => file.type.startsWith("audio/") || ENDINGS.test(file.name));
  }

  // A file as the server takes it, which tells kinds by their content.
  async function read(file) {
    const most = limits.bytes;
    if (file.size > most) throw new Error(`${file.name}: the server takes sounds of ${Math.floor(most / 2 ** 20)} MiB at most.`);
    const url = await Pictures.dataUrl(file);
    return isSound(url) ? url : url.replace(/^data:[^,]*/, "data:audio/wav;base64");
  }

  // Plays a sound.
  function node(src, name) {
    if (!src) return el("span", { className: "help" }, "This browser no longer keeps this sound.");
    return el("audio", { src, controls: true, preload: "metadata", "aria-label": name });
  }

  return {
    isSound,
    among,
    read,
    node,
    learn: (told) => (limits = { ...limits, ...told }),
  };
})();
