// Loaded by every Node.js inside a sandbox: sends http, https and fetch through the egress proxy.
// Node.js 24 and later do so by themselves (NODE_USE_ENV_PROXY); older ones know nothing of proxies. Standard library
// only; whatever goes wrong here leaves Node.js as it was.
'use strict';
try {
  const [major, minor] = process.versions.node.split('.').map(Number);
  const native = major > 24 || (major === 24 && minor >= 5) || (major === 22 && minor >= 21);
  const proxy = process.env.HTTP_PROXY;
  if (!native && proxy && !process.env.NIGHTPORTER_NODE_PROXY_OFF) install(new URL(proxy));
} catch (error) {
  // Nothing of this may keep a program from running.
}

function install(proxy) {
  const http = require('node:http');
  const https = require('node:https');
  const net = require('node:net');
  const tls = require('node:tls');
  const direct = new Set((process.env.NO_PROXY || '').split(',').map((name) => name.trim()).filter(Boolean));
  const bare = (host) => String(host || 'localhost').replace(/^\[|\]$/g, '');
  const isDirect = (host) => direct.has(bare(host));
  const authority = (host, port) => (bare(host).includes(':') ? `[${bare(host)}]:${port}` : `${bare(host)}:${port}`);

  // A tunnel to host:port; `done(error, socket)`.
  function tunnel(host, port, done) {
    const socket = net.connect(Number(proxy.port), proxy.hostname);
    let answer = Buffer.alloc(0);
    let over = false;
    const fail = (error) => {
      if (over) return;
      over = true;
      socket.destroy();
      done(error);
    };
    socket.once('error', fail);
    socket.once('close', () => fail(new Error('the egress proxy closed the connection')));
    const name = authority(host, port);
    socket.write(`CONNECT ${name} HTTP/1.1\r\nHost: ${name}\r\n\r\n`);
    socket.on('data', function read(data) {
      answer = Buffer.concat([answer, data]);
      const end = answer.indexOf('\r\n\r\n');
      if (end < 0) return;
      socket.removeListener('data', read);
      const line = answer.toString('latin1', 0, answer.indexOf('\r\n'));
      if (!/^HTTP\/1\.[01] 200 /.test(line)) return fail(new Error(line.replace(/^HTTP\/1\.[01] /, 'egress: ')));
      over = true;
      socket.removeAllListeners('close');
      socket.removeListener('error', fail);
      socket.pause();
      if (answer.length > end + 4) socket.unshift(answer.subarray(end + 4));
      done(null, socket);
    });
  }

  function secured(options, socket) {
    const name = options.servername || bare(options.host || options.hostname);
    const given = { ...options, socket, servername: net.isIP(name) ? undefined : name };
    delete given.path; // for tls.connect a path is a unix socket
    return tls.connect(given);
  }

  const createSecure = https.Agent.prototype.createConnection;
  https.Agent.prototype.createConnection = function (options, done) {
    if (options.socketPath || options.socket || isDirect(options.host)) return createSecure.call(this, options, done);
    tunnel(options.host, options.port || 443, (error, socket) => {
      if (error) return done(error);
      done(null, secured(options, socket));
    });
    return undefined;
  };

  // Plain http: the request goes to the proxy in absolute form.
  const request = http.ClientRequest;
  const add = http.Agent.prototype.addRequest;
  http.Agent.prototype.addRequest = function (req, options, ...rest) {
    const plain = this.protocol === 'http:' && !(options && (options.socketPath || isDirect(options.host)));
    if (plain && req instanceof request && req.path.startsWith('/')) {
      const port = Number(options.port || 80);
      req.path = `http://${port === 80 ? bare(options.host) : authority(options.host, port)}${req.path}`;
      options = { ...options, host: proxy.hostname, hostname: proxy.hostname, port: Number(proxy.port) };
    }
    return add.call(this, req, options, ...rest);
  };

  // fetch: the bundled undici, whose own Agent takes a function that connects.
  const key = Symbol.for('undici.globalDispatcher.1');
  const fetch = globalThis.fetch;
  if (typeof fetch !== 'function') return;
  let ready = false;
  globalThis.fetch = function (...args) {
    if (!ready) {
      ready = true;
      try {
        fetch('data:,').catch(() => {}); // makes Node.js load undici, and its dispatcher
        const Agent = globalThis[key] && globalThis[key].constructor;
        if (Agent) globalThis[key] = dispatcher(new Agent({ connect: dial }));
      } catch (error) {
        // As it was.
      }
    }
    return fetch.apply(this, args);
  };

  // Plain http goes to the proxy in absolute form, here too.
  function dispatcher(agent) {
    const dispatch = agent.dispatch;
    agent.dispatch = function (options, handler) {
      const origin = new URL(options.origin);
      if (origin.protocol === 'http:' && !isDirect(origin.hostname)) {
        const { headers } = options;
        const named = Array.isArray(headers) ? [...headers, 'host', origin.host] : { ...headers, host: origin.host };
        options = { ...options, origin: proxy.origin, path: origin.origin + options.path, headers: named };
      }
      return dispatch.call(this, options, handler);
    };
    return agent;
  }

  const isProxy = (options) => options.hostname === proxy.hostname && Number(options.port) === Number(proxy.port);

  function dial(options, done) {
    const secure = options.protocol === 'https:';
    const port = Number(options.port || (secure ? 443 : 80));
    const give = (error, socket) => {
      if (error) return done(error, null);
      if (!secure) return done(null, socket.resume());
      const opened = secured({ ...options, host: options.hostname, ALPNProtocols: ['http/1.1'] }, socket);
      opened.once('secureConnect', () => done(null, opened)).once('error', (failure) => done(failure, null));
      return undefined;
    };
    if (!isDirect(options.hostname) && !isProxy(options)) return tunnel(options.hostname, port, give);
    const socket = net.connect(port, bare(options.hostname));
    return socket.once('connect', () => give(null, socket)).once('error', (failure) => done(failure, null));
  }
}
