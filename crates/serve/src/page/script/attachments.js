"use strict";
// Pictures and sounds beside the message that is being written: chosen, pasted or dropped, where the model sees or hears.
const Attachments = (() => {
  // URLs of both, in their order.
  let attached = [];
  let takes = { vision: false, audio: false };

  // Offers what the model takes.
  function offer({ vision = false, audio = false } = {}) {
    takes = { vision, audio };
    const names = [vision && "Picture", audio && "Sound"].filter(Boolean);
    byId("attach").hidden = !names.length;
    byId("attach").textContent = names.join(" or ") || "File";
    byId("attach-file").accept = [vision && "image/*", audio && "audio/*,.flac"].filter(Boolean).join();
  }

  // The kind of thing that a file is, by which it is read; none where the model does not take it.
  function kindOf(file) {
    const sound = Sounds.among({ files: [file] }).length > 0;
    if (sound) return takes.audio ? Sounds : undefined;
    return takes.vision ? Pictures : undefined;
  }

  function refusal() {
    if (!takes.vision && !takes.audio) return "This model takes text only.";
    return takes.audio ? "This model takes no pictures." : "This model takes no sounds.";
  }

  async function add(files) {
    notice("");
    for (const file of files) {
      const kind = kindOf(file);
      if (!kind) {
        notice(refusal());
        continue;
      }
      try {
        const url = await kind.read(file);
        attached = [...attached, url];
        draw();
      } catch (error) {
        notice(error.message);
      }
    }
    byId("text").focus();
  }

  function remove(index) {
    attached = attached.filter((_, other) => other !== index);
    draw();
    byId("text").focus();
  }

  function draw() {
    const item = (src, index) => {
      const [kind, name] = Sounds.isSound(src) ? ["sound", `Sound ${index + 1}`] : ["picture", `Picture ${index + 1}`];
      const shown = kind === "sound" ? Sounds.node(src, name) : el("img", { src, alt: name });
      return el("li", { className: kind }, shown, button("×", () => remove(index), { "aria-label": `Remove ${kind} ${index + 1}` }));
    };
    byId("pictures").replaceChildren(...attached.map(item));
  }

  // What belongs to a message, by hashes; the next message begins without any.
  function take() {
    const hashes = (wanted) => attached.filter((url) => Sounds.isSound(url) === wanted).map(Pictures.keep);
    const [images, sounds] = [hashes(false), hashes(true)];
    attached = [];
    draw();
    return { ...(images.length ? { images } : {}), ...(sounds.length ? { sounds } : {}) };
  }

  const among = (transfer) => [...Pictures.among(transfer), ...Sounds.among(transfer)];

  function listen() {
    const chosen = byId("attach-file");
    byId("attach").addEventListener("click", () => chosen.click());
    chosen.addEventListener("change", async () => {
      const files = [...chosen.files];
      chosen.value = "";
      await add(files);
    });
    byId("text").addEventListener("paste", (event) => {
      const files = among(event.clipboardData);
      // Office programs put a picture of the text beside the text.
      if (!files.length || event.clipboardData.getData("text/plain")) return;
      event.preventDefault();
      add(files);
    });
    listenToDrops();
  }

  // A file that is dropped beside a target would take the page's place.
  function listenToDrops() {
    const files = (event) => event.dataTransfer?.types.includes("Files");
    const mark = (on) => document.body.classList.toggle("dropping", on);
    document.addEventListener("dragover", (event) => {
      if (!files(event)) return;
      event.preventDefault();
      mark(takes.vision || takes.audio);
    });
    document.addEventListener("dragleave", (event) => event.relatedTarget || mark(false));
    document.addEventListener("drop", (event) => {
      mark(false);
      if (!files(event)) return;
      event.preventDefault();
      const dropped = among(event.dataTransfer);
      if (dropped.length) add(dropped);
      else notice("Only pictures and sounds can be attached.");
    });
  }

  return {
    offer,
    take,
    listen,
    get any() {
      return attached.length > 0;
    },
  };
})();
